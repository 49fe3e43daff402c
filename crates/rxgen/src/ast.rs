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

/// A name and where it stands.
#[derive(Debug, Clone)]
pub struct Name {
    /// The name as written.
    pub text: String,
    /// Location in the source.
    pub at: Location,
}

/// A whole interface, includes spliced in.
#[derive(Debug, Default)]
pub struct Interface {
    /// Constants from `const` and `#define`, in order.
    pub constants: Vec<Constant>,
    /// Types, in order.
    pub types: Vec<TypeDefinition>,
    /// Packages, in order.
    pub packages: Vec<Package>,
}

/// A named constant.
#[derive(Debug, Clone)]
pub struct Constant {
    /// The constant's name.
    pub name: Name,
    /// The constant's value.
    pub value: Value,
}

/// The value of a constant.
#[derive(Debug, Clone)]
pub enum Value {
    /// An integer; `hex` when it was written so.
    Integer {
        /// The value.
        value: i64,
        /// Whether to print it in hexadecimal.
        hex: bool,
    },
    /// A string, without its quotes.
    Text(String),
    /// The value of another integer constant.
    Same(Name),
}

/// An integer where the grammar wants one: a literal or a constant's name.
#[derive(Debug, Clone)]
pub enum Number {
    /// A literal.
    Literal(i64, Location),
    /// The name of a constant or enumerator.
    Named(Name),
}

/// A type with a name.
#[derive(Debug)]
pub struct TypeDefinition {
    /// The type's name.
    pub name: Name,
    /// Kind of the type.
    pub kind: TypeKind,
}

/// Kind of a type definition.
#[derive(Debug)]
pub enum TypeKind {
    /// `struct`: the fields.
    Struct(Vec<Declaration>),
    /// `enum`: the members, with their values where given.
    Enum(Vec<(Name, Option<Number>)>),
    /// `union`.
    Union {
        /// Discriminant of the switch.
        discriminant: Declaration,
        /// The cases; an arm of `None` is `void`.
        cases: Vec<(Number, Option<Declaration>)>,
        /// The default arm, if there is one.
        default: Option<Option<Declaration>>,
    },
    /// `typedef`: the declaration whose name is the type's.
    Alias(Declaration),
}

/// A type, a name and the name's shape.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// The element type.
    pub base: Base,
    /// Location of the type.
    pub at: Location,
    /// One element or many.
    pub shape: Shape,
    /// The name.
    pub name: Name,
}

/// A type without shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// `char`: a sign-extended word.
    Char,
    /// `unsigned char`.
    UnsignedChar,
    /// `short`.
    Short,
    /// `unsigned short`.
    UnsignedShort,
    /// `int`, `afs_int32`.
    Int,
    /// `unsigned`, `unsigned int`, `afs_uint32`.
    Unsigned,
    /// `afs_int64`.
    Hyper,
    /// `afs_uint64`.
    UnsignedHyper,
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// `bool`.
    Bool,
    /// `opaque`; always an array.
    Opaque,
    /// `string`; always a variable-length array.
    String,
    /// `afsUUID`.
    Uuid,
    /// `afs_time64`.
    Time64,
    /// A type defined in the interface.
    Named(String),
}

/// One element or many.
#[derive(Debug, Clone)]
pub enum Shape {
    /// A single value.
    One,
    /// `*name`.
    Pointer,
    /// `name[n]`.
    Fixed(Number),
    /// `name<n>` or `name<>`.
    Variable(Option<Number>),
}

/// A set of procedures with a common prefix.
#[derive(Debug)]
pub struct Package {
    /// The prefix, which ends in an underscore by custom: `RXAFS_`.
    pub name: Name,
    /// The number under which stock servers keep the package's statistics.
    pub statindex: Option<u32>,
    /// Procedures in order; the order is the statistics index.
    pub procedures: Vec<Procedure>,
}

/// A procedure.
#[derive(Debug)]
pub struct Procedure {
    /// The procedure's name without the package's prefix.
    pub name: Name,
    /// The procedure's parameters in order.
    pub parameters: Vec<Parameter>,
    /// `split`: raw bytes go between the parameters of request and reply.
    pub split: bool,
    /// `multi`: may be called on many servers at once.
    pub multi: bool,
    /// The opcode, if one is written.
    pub opcode: Option<Number>,
    /// The opcode that counts if none is written.
    pub implicit_opcode: u32,
}

/// A parameter of a procedure.
#[derive(Debug)]
pub struct Parameter {
    /// Direction in which it travels.
    pub direction: Direction,
    /// The parameter's type and name.
    pub declaration: Declaration,
}

/// Direction in which a parameter travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// In the request.
    In,
    /// In the reply.
    Out,
    /// In both.
    InOut,
}

impl Direction {
    /// Returns whether the request carries it.
    pub const fn in_request(self) -> bool {
        matches!(self, Self::In | Self::InOut)
    }

    /// Returns whether the reply carries it.
    pub const fn in_reply(self) -> bool {
        matches!(self, Self::Out | Self::InOut)
    }
}
