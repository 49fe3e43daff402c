use super::interpreter::Packet;
use super::*;

/// Makes a program that returns 1 for payloads of 8 bytes or more with an odd second word, once shifted and
/// folded; else 0; 2 if short.
fn sample() -> Program {
    let mut asm = Assembler::new();
    let long = asm.label();
    asm.load_length();
    asm.jump_if(Condition::AtLeast(8), long);
    asm.return_constant(2);
    asm.place(long);
    asm.load_word(4);
    asm.compute(Arithmetic::ShiftRight(2));
    asm.copy_to_x();
    asm.load_word(0);
    asm.compute(Arithmetic::XorX);
    asm.compute(Arithmetic::Modulo(2));
    asm.return_a();
    asm.assemble().unwrap()
}

#[test]
fn disassembly_is_in_bpf_asm_notation() {
    insta::assert_snapshot!(sample());
}

#[test]
fn program_does_what_it_says() {
    let run = |payload: &[u8]| sample().run(&Packet { payload: payload.to_vec(), ..Packet::default() });
    assert_eq!(run(&[0; 7]), 2);
    assert_eq!(run(&[0, 0, 0, 1, 0, 0, 0, 0]), 1);
    assert_eq!(run(&[0, 0, 0, 1, 0, 0, 0, 4]), 0);
    assert_eq!(run(&[0, 0, 0, 0, 0, 0, 0, 7]), 1);
}

#[test]
fn load_past_the_end_returns_zero() {
    let mut asm = Assembler::new();
    asm.load_word(4);
    asm.return_constant(9);
    assert_eq!(asm.assemble().unwrap().run(&Packet { payload: vec![0; 7], ..Packet::default() }), 0);
}

#[test]
fn conditional_jump_spans_255_instructions_and_not_more() {
    let program = |between: usize| {
        let mut asm = Assembler::new();
        let end = asm.label();
        asm.jump_if(Condition::Equal(0), end);
        (0..between).for_each(|_| asm.copy_to_x());
        asm.place(end);
        asm.return_constant(0);
        asm.assemble()
    };
    assert!(program(255).is_ok());
    assert_eq!(program(256), Err(AssembleError::TooFar { at: 0, distance: 256 }));
}

#[test]
fn unconditional_jump_goes_any_distance() {
    let mut asm = Assembler::new();
    let end = asm.label();
    asm.jump(end);
    (0..4000).for_each(|_| asm.return_constant(1));
    asm.place(end);
    asm.return_constant(7);
    assert_eq!(asm.assemble().unwrap().run(&Packet::default()), 7);
}

#[test]
fn programs_the_kernel_would_refuse_are_not_assembled() {
    assert_eq!(Assembler::new().assemble(), Err(AssembleError::Length(0)));
    let mut asm = Assembler::new();
    asm.load_length();
    assert_eq!(asm.assemble(), Err(AssembleError::NoReturn));
    let mut asm = Assembler::new();
    asm.compute(Arithmetic::Modulo(0));
    asm.return_a();
    assert_eq!(asm.assemble(), Err(AssembleError::DivisionByZero { at: 0 }));
    let mut asm = Assembler::new();
    let start = asm.label();
    asm.place(start);
    asm.jump(start);
    asm.return_a();
    assert_eq!(asm.assemble(), Err(AssembleError::Backwards { at: 0 }));
    let mut asm = Assembler::new();
    let nowhere = asm.label();
    asm.jump_unless(Condition::Greater(1), nowhere);
    asm.return_a();
    assert_eq!(asm.assemble(), Err(AssembleError::Unplaced { at: 0 }));
    let mut asm = Assembler::new();
    (0..4097).for_each(|_| asm.return_constant(0));
    assert_eq!(asm.assemble(), Err(AssembleError::Length(4097)));
}
