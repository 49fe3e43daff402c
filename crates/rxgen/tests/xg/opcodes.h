#ifndef OPCODES_H
#define OPCODES_H
#define	NOTE_OP_PROBE	700
#define	NOTE_OP_READ	\
	(NOTE_OP_PROBE + 1)
#endif
