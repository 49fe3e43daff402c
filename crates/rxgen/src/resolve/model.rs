//! Model of what is generated, free of everything the interface file left open.

use crate::ast::Name;

/// Name of the variant for a union's default arm.
pub(crate) const OTHER: &str = "Other";
/// Name of the enum of a package's requests.
pub(crate) const REQUEST: &str = "Request";
/// Name of the trait that a package's server implements.
pub(crate) const SERVER: &str = "Server";
/// Names in a package's module that no procedure may have.
pub(crate) const RESERVED: [&str; 3] = [REQUEST, SERVER, "Tally"];

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) constants: Vec<ConstantItem>,
    pub(crate) types: Vec<TypeItem>,
    pub(crate) packages: Vec<PackageItem>,
}

#[derive(Debug)]
pub(crate) struct ConstantItem {
    pub(crate) name: Name,
    pub(crate) rust: String,
    pub(crate) value: crate::ast::Value,
}

#[derive(Debug)]
pub(crate) struct TypeItem {
    pub(crate) name: Name,
    pub(crate) rust: String,
    pub(crate) kind: ItemKind,
    pub(crate) properties: Properties,
}

#[derive(Debug)]
pub(crate) enum ItemKind {
    Struct(Vec<Field>),
    Enum(Vec<Member>),
    Union(Union),
    Alias(Type),
}

/// Properties of a type that follow from its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Properties {
    /// True when the type borrows from the input, and so has a lifetime parameter.
    pub(crate) borrows: bool,
    /// True when the type can be `Copy`.
    pub(crate) copy: bool,
    /// True when the type can be `Eq` and `Hash`: no floating point inside.
    pub(crate) eq: bool,
    /// True when the type can be `Default`: no enumeration or union inside.
    pub(crate) default: bool,
    /// Bytes of the type's shortest encoding.
    pub(crate) min_size: usize,
}

impl Default for Properties {
    /// Returns the properties of a type without parts.
    fn default() -> Self {
        Self { borrows: false, copy: true, eq: true, default: true, min_size: 0 }
    }
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Name,
    pub(crate) rust: String,
    pub(crate) ty: Type,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: Name,
    pub(crate) rust: String,
    pub(crate) value: i32,
}

#[derive(Debug)]
pub(crate) struct Union {
    pub(crate) switch: Switch,
    pub(crate) arms: Vec<Arm>,
    /// Default arm, if there is one, with the type that it holds, if any.
    pub(crate) default: Option<Option<Type>>,
    /// True when the arms name every value of the discriminant.
    pub(crate) exhaustive: bool,
}

#[derive(Debug)]
pub(crate) enum Switch {
    Signed,
    Unsigned,
    Bool,
    /// Index of the enumeration among the types.
    Enum(usize),
}

#[derive(Debug)]
pub(crate) struct Arm {
    pub(crate) name: Name,
    pub(crate) rust: String,
    pub(crate) value: i64,
    pub(crate) ty: Option<Type>,
}

#[derive(Debug)]
pub(crate) enum Type {
    /// Rust path of a type that needs no lookup.
    Primitive(&'static str),
    Chars(u32),
    Opaque(u32),
    Bytes(Option<u32>),
    /// Index of a type of the interface.
    Named(usize),
    Array(Box<Type>, u32),
    List(Box<Type>, Option<u32>),
    Optional(Box<Type>),
}

#[derive(Debug)]
pub(crate) struct PackageItem {
    pub(crate) name: Name,
    pub(crate) module: String,
    pub(crate) statindex: Option<u32>,
    pub(crate) procedures: Vec<ProcedureItem>,
}

#[derive(Debug)]
pub(crate) struct ProcedureItem {
    pub(crate) name: Name,
    pub(crate) full_name: String,
    pub(crate) rust: String,
    pub(crate) opcode: u32,
    pub(crate) split: bool,
    pub(crate) multi: bool,
    pub(crate) request: Vec<Field>,
    pub(crate) reply: Vec<Field>,
}
