//! The syntax tree of an interface.
//!
//! ```text
//! file        = { definition }
//! definition  = "const" NAME "=" ( constant | STRING ) ";"
//!             | "enum" NAME "{" NAME [ "=" constant ] { "," … } "}" ";"
//!             | [ "customized" ] "struct" NAME "{" { declaration ";" } "}" ";"
//!             | "union" NAME "switch" "(" declaration ")" "{" { "case" constant ":" arm } [ "default" ":" arm ] "}" ";"
//!             | "typedef" declaration ";"
//!             | "package" PREFIX | "prefix" NAME | "statindex" NUMBER | "startingopcode" NUMBER
//!             | "special" type NAME { "," NAME } ";" | "splitprefix" { ( "IN" | "OUT" ) "=" NAME } ";"
//!             | [ "proc" ] NAME [ SERVERSTUB ] "(" [ parameter { "," parameter } ] ")" [ "split" | "multi" ]
//!               [ "=" constant ] ";"
//! arm         = ( declaration | "void" ) ";"
//! parameter   = [ "IN" | "OUT" | "INOUT" ] declaration
//! declaration = type [ "*" ] NAME [ "[" constant "]" | "<" [ constant ] ">" ]
//! type        = "char" | "short" | "int" | "afs_int32" | "unsigned" [ … ] | "float" | "double" | "bool" | "string"
//!             | "opaque" | "afsUUID" | [ "struct" | "enum" | "union" ] NAME
//! ```
//!
//! Points where the dialect surprises:
//! - A parameter without a direction takes the one before it, also across procedures.
//! - `*` is optional data in a struct, union or typedef, but means nothing on a parameter: both travel as the value.
//! - Opcodes are given on every procedure of a package or on none; then they count up from `startingopcode` or 0, and
//!   go on counting in the next package.
//! - Lines that start with `%` are C, copied by rxgen to its output. Here they are skipped, except that a
//!   `%#define` of an integer is a constant: interfaces use those as array bounds.
//! - `#define`, `#include "…"` and conditionals work as in C; each file is included once. Of `<…>` headers nothing is
//!   read.

use crate::Location;

/// Name in an interface, with its location.
#[derive(Debug, Clone)]
pub struct Name {
    /// The name as written.
    pub text: String,
    /// Location in the source.
    pub at: Location,
}

/// Whole interface, with its includes.
#[derive(Debug, Default)]
pub struct Interface {
    /// Constants from `const` and `#define`, in order.
    pub constants: Vec<Constant>,
    /// Type definitions, in order.
    pub types: Vec<TypeDefinition>,
    /// Packages of procedures, in order.
    pub packages: Vec<Package>,
}

/// Constant with a name.
#[derive(Debug, Clone)]
pub struct Constant {
    /// Name of the constant.
    pub name: Name,
    /// Value of the constant.
    pub value: Value,
}

/// Value of a constant, as written.
#[derive(Debug, Clone)]
pub enum Value {
    /// Integer, with its notation.
    Integer {
        /// Value of the integer.
        value: i64,
        /// True when the integer was written in hexadecimal, and is to be printed so.
        hex: bool,
    },
    /// String without its quotes.
    Text(String),
    /// The value of another integer constant.
    Same(Name),
}

/// Integer where the grammar wants one: a literal or a constant's name.
#[derive(Debug, Clone)]
pub enum Number {
    /// Integer literal, with its location.
    Literal(i64, Location),
    /// Name of a constant or enumerator.
    Named(Name),
}

/// Definition of a type with a name.
#[derive(Debug)]
pub struct TypeDefinition {
    /// Name of the type.
    pub name: Name,
    /// Kind of the type, with its parts.
    pub kind: TypeKind,
}

/// Kind of a type definition.
#[derive(Debug)]
pub enum TypeKind {
    /// `struct`, with its fields.
    Struct(Vec<Declaration>),
    /// `enum`, with its members and, where given, their values.
    Enum(Vec<(Name, Option<Number>)>),
    /// `union`, with its cases.
    Union {
        /// Discriminant of the switch.
        discriminant: Declaration,
        /// Cases of the union; an arm of `None` is `void`.
        cases: Vec<(Number, Option<Declaration>)>,
        /// Default arm, if there is one; `Some(None)` is `void`.
        default: Option<Option<Declaration>>,
    },
    /// `typedef`, whose declaration has the name of the new type.
    Alias(Declaration),
}

/// Declaration of one name: a type, the name and the name's shape.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// Type of one element.
    pub base: Base,
    /// Location of the type.
    pub at: Location,
    /// Shape of the declared value.
    pub shape: Shape,
    /// Name that is declared.
    pub name: Name,
}

/// Element type, without shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// `char`: a sign-extended word.
    Char,
    /// `unsigned char`: a zero-extended word.
    UnsignedChar,
    /// `short`: a sign-extended word.
    Short,
    /// `unsigned short`: a zero-extended word.
    UnsignedShort,
    /// `int` or `afs_int32`: 32 bits, signed.
    Int,
    /// `unsigned`, `unsigned int` or `afs_uint32`: 32 bits.
    Unsigned,
    /// `afs_int64`: 64 bits, signed.
    Hyper,
    /// `afs_uint64`: 64 bits, unsigned.
    UnsignedHyper,
    /// `float`: 32 bits.
    Float,
    /// `double`: 64 bits.
    Double,
    /// `bool`: a word of 0 or 1.
    Bool,
    /// `opaque`; always an array.
    Opaque,
    /// `string`; always a variable-length array.
    String,
    /// `afsUUID`: see `xdr::AfsUuid`.
    Uuid,
    /// `afs_time64`: see `xdr::Time64`.
    Time64,
    /// Type that the interface defines, by its name.
    Named(String),
}

/// Shape of a declared value: one element or many.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Single value, `name`.
    One,
    /// Optional value, `*name`.
    Pointer,
    /// Array of fixed length, `name[n]`.
    Fixed(Number),
    /// Array of variable length with an optional bound, `name<n>` or `name<>`.
    Variable(Option<Number>),
}

/// Set of procedures with a common prefix.
#[derive(Debug)]
pub struct Package {
    /// Prefix of the procedures, which ends in an underscore by custom: `RXAFS_`.
    pub name: Name,
    /// Number under which stock servers keep the package's statistics.
    pub statindex: Option<u32>,
    /// Procedures in order; the order is the statistics index.
    pub procedures: Vec<Procedure>,
}

/// Procedure of a package.
#[derive(Debug)]
pub struct Procedure {
    /// The procedure's name without the package's prefix.
    pub name: Name,
    /// The procedure's parameters in order.
    pub parameters: Vec<Parameter>,
    /// True for a `split` procedure: raw bytes go between the parameters of request and reply.
    pub split: bool,
    /// True for a `multi` procedure, which may be called on many servers at once.
    pub multi: bool,
    /// Opcode of the procedure, if the interface gives one.
    pub opcode: Option<Number>,
    /// Opcode of the procedure where the interface gives none.
    pub implicit_opcode: u32,
}

/// Parameter of a procedure.
#[derive(Debug)]
pub struct Parameter {
    /// Direction in which the parameter travels.
    pub direction: Direction,
    /// The parameter's type and name.
    pub declaration: Declaration,
}

/// Direction in which a parameter travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The request carries the parameter.
    In,
    /// The reply carries the parameter.
    Out,
    /// Request and reply carry the parameter.
    InOut,
}

impl Direction {
    /// Returns whether the request carries the parameter.
    pub const fn in_request(self) -> bool {
        matches!(self, Self::In | Self::InOut)
    }

    /// Returns whether the reply carries the parameter.
    pub const fn in_reply(self) -> bool {
        matches!(self, Self::Out | Self::InOut)
    }
}
