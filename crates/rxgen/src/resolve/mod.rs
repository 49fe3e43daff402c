//! Resolver, from the syntax tree to what is generated: names looked up, constants computed, properties of
//! types derived.

mod constants;
mod model;
mod properties;

use std::collections::HashMap;

use crate::ast::*;
use crate::lexer::Define;
use crate::names;
use crate::{Error, Result};
use constants::Constants;
pub(crate) use model::*;
pub(crate) use properties::{LONGEST_DEFAULT_ARRAY, combined, of};

/// Resolves a parsed interface and its defines.
pub(crate) fn interface((interface, defines): (Interface, Vec<Define>)) -> Result<Model> {
    let constants = Constants::new(&interface, &defines)?;
    let mut type_names = HashMap::new();
    for (index, definition) in interface.types.iter().enumerate() {
        if type_names.insert(definition.name.text.clone(), index).is_some() {
            let message = format!("type `{}` is defined twice", definition.name.text);
            return Err(Error::meaning(&definition.name.at, message));
        }
    }
    let resolver = Resolver { types: &interface.types, type_names, constants };
    let mut types = Vec::new();
    for definition in &interface.types {
        types.push(resolver.definition(definition)?);
    }
    unique(types.iter().map(|item| (&item.rust, &item.name)), "types")?;
    properties::derive(&mut types)?;
    let mut packages = Vec::new();
    for package in &interface.packages {
        packages.push(resolver.package(package)?);
    }
    unique(packages.iter().map(|package| (&package.module, &package.name)), "packages")?;
    Ok(Model { constants: resolver.constants.listed()?, types, packages })
}

struct Resolver<'i> {
    types: &'i [TypeDefinition],
    type_names: HashMap<String, usize>,
    constants: Constants<'i>,
}

impl Resolver<'_> {
    fn definition(&self, definition: &TypeDefinition) -> Result<TypeItem> {
        let kind = match &definition.kind {
            TypeKind::Struct(fields) => ItemKind::Struct(self.fields(fields.iter())?),
            TypeKind::Enum(members) => self.enumeration(members)?,
            TypeKind::Union { discriminant, cases, default } => {
                self.union(discriminant, cases, default.as_ref())?
            }
            TypeKind::Alias(declaration) => ItemKind::Alias(self.shaped(declaration, false)?),
        };
        let rust = names::type_name(&definition.name.text);
        Ok(TypeItem { name: definition.name.clone(), rust, kind, properties: Properties::default() })
    }

    fn fields<'d>(&self, declarations: impl Iterator<Item = &'d Declaration>) -> Result<Vec<Field>> {
        let fields: Vec<Field> = declarations.map(|field| self.field(field, false)).collect::<Result<_>>()?;
        unique(fields.iter().map(|field| (&field.rust, &field.name)), "fields")?;
        Ok(fields)
    }

    fn field(&self, declaration: &Declaration, parameter: bool) -> Result<Field> {
        let rust = names::snake(&declaration.name.text);
        Ok(Field { name: declaration.name.clone(), rust, ty: self.shaped(declaration, parameter)? })
    }

    fn enumeration(&self, members: &[(Name, Option<Number>)]) -> Result<ItemKind> {
        let texts: Vec<&str> = members.iter().map(|(name, _)| name.text.as_str()).collect();
        let mut resolved: Vec<Member> = Vec::new();
        for ((name, _), rust) in members.iter().zip(names::variants(&texts)) {
            let value = self.constants.value(name)?;
            let value = i32::try_from(value)
                .map_err(|_| Error::meaning(&name.at, format!("`{}` does not fit 32 bits", name.text)))?;
            if let Some(same) = resolved.iter().find(|member| member.value == value) {
                let message = format!("`{}` and `{}` are both {value}", same.name.text, name.text);
                return Err(Error::meaning(&name.at, message));
            }
            resolved.push(Member { name: name.clone(), rust, value });
        }
        unique(resolved.iter().map(|member| (&member.rust, &member.name)), "enumerators")?;
        Ok(ItemKind::Enum(resolved))
    }

    fn union(
        &self,
        discriminant: &Declaration,
        cases: &[(Number, Option<Declaration>)],
        default: Option<&Option<Declaration>>,
    ) -> Result<ItemKind> {
        let switch = self.switch(discriminant)?;
        let labels: Vec<String> = cases.iter().map(|(label, _)| label_text(label)).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let mut arms: Vec<Arm> = Vec::new();
        for ((label, declaration), rust) in cases.iter().zip(names::variants(&labels)) {
            let (value, at) = (self.number(label)?, number_at(label));
            let allowed = match &switch {
                Switch::Signed => i32::try_from(value).is_ok(),
                Switch::Unsigned => u32::try_from(value).is_ok(),
                Switch::Bool => matches!(value, 0 | 1),
                Switch::Enum(index) => self.enum_values(*index)?.contains(&value),
            };
            if !allowed || arms.iter().any(|arm| arm.value == value) {
                let problem =
                    if allowed { "is the value of two cases" } else { "is no value of the discriminant" };
                return Err(Error::meaning(at, format!("case {value} {problem}")));
            }
            let ty = declaration.as_ref().map(|declaration| self.shaped(declaration, false)).transpose()?;
            let name = Name { text: label_text(label), at: at.clone() };
            arms.push(Arm { name, rust, value, ty });
        }
        unique(arms.iter().map(|arm| (&arm.rust, &arm.name)), "cases")?;
        let default = default
            .map(|arm| arm.as_ref().map(|declaration| self.shaped(declaration, false)).transpose())
            .transpose()?;
        if let Some(arm) = arms.iter().find(|arm| default.is_some() && arm.rust == OTHER) {
            return Err(Error::meaning(&arm.name.at, format!("a case `{OTHER}` besides a default arm")));
        }
        let exhaustive = match &switch {
            Switch::Bool => arms.len() == 2,
            Switch::Enum(index) => arms.len() == self.enum_values(*index)?.len(),
            Switch::Signed | Switch::Unsigned => false,
        };
        Ok(ItemKind::Union(Union { switch, arms, default, exhaustive }))
    }

    /// Returns what a union switches on: an integer, a boolean or an enumeration, by any number of typedefs.
    fn switch(&self, declaration: &Declaration) -> Result<Switch> {
        let refuse = || {
            let message = format!("a union cannot switch on `{}`", declaration.name.text);
            Err(Error::meaning(&declaration.at, message))
        };
        let mut declaration = declaration;
        for _ in 0..=self.types.len() {
            match (&declaration.base, &declaration.shape) {
                (Base::Int, Shape::One) => return Ok(Switch::Signed),
                (Base::Unsigned, Shape::One) => return Ok(Switch::Unsigned),
                (Base::Bool, Shape::One) => return Ok(Switch::Bool),
                (Base::Named(name), Shape::One) => {
                    let index = self.named(name, &declaration.at)?;
                    match &self.types[index].kind {
                        TypeKind::Enum(_) => return Ok(Switch::Enum(index)),
                        TypeKind::Alias(target) => declaration = target,
                        TypeKind::Struct(_) | TypeKind::Union { .. } => return refuse(),
                    }
                }
                _ => return refuse(),
            }
        }
        refuse()
    }

    fn enum_values(&self, index: usize) -> Result<Vec<i64>> {
        match &self.types[index].kind {
            TypeKind::Enum(members) => members.iter().map(|(name, _)| self.constants.value(name)).collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the Rust type of a declaration. A parameter's `*` means nothing.
    fn shaped(&self, declaration: &Declaration, parameter: bool) -> Result<Type> {
        let size = |number: &Number| self.size(number);
        match (&declaration.base, &declaration.shape) {
            (Base::Opaque, Shape::Fixed(number)) => Ok(Type::Opaque(size(number)?)),
            (Base::Char, Shape::Fixed(number)) => Ok(Type::Chars(size(number)?)),
            (Base::Opaque | Base::String, Shape::Variable(bound)) => {
                Ok(Type::Bytes(bound.as_ref().map(size).transpose()?))
            }
            (Base::Opaque | Base::String, Shape::One | Shape::Pointer | Shape::Fixed(_)) => {
                Err(Error::meaning(&declaration.at, "opaque data and strings need a bound"))
            }
            (base, Shape::One) => self.base(base, declaration),
            (base, Shape::Pointer) if parameter => self.base(base, declaration),
            (base, Shape::Pointer) => Ok(Type::Optional(Box::new(self.base(base, declaration)?))),
            (base, Shape::Fixed(number)) => {
                Ok(Type::Array(Box::new(self.base(base, declaration)?), size(number)?))
            }
            (base, Shape::Variable(bound)) => {
                let bound = bound.as_ref().map(size).transpose()?;
                Ok(Type::List(Box::new(self.base(base, declaration)?), bound))
            }
        }
    }

    fn base(&self, base: &Base, declaration: &Declaration) -> Result<Type> {
        Ok(match base {
            Base::Char => Type::Primitive("i8"),
            Base::UnsignedChar => Type::Primitive("u8"),
            Base::Short => Type::Primitive("i16"),
            Base::UnsignedShort => Type::Primitive("u16"),
            Base::Int => Type::Primitive("i32"),
            Base::Unsigned => Type::Primitive("u32"),
            Base::Hyper => Type::Primitive("i64"),
            Base::UnsignedHyper => Type::Primitive("u64"),
            Base::Float => Type::Primitive("f32"),
            Base::Double => Type::Primitive("f64"),
            Base::Bool => Type::Primitive("bool"),
            Base::Uuid => Type::Primitive("::xdr::afs::AfsUuid"),
            Base::Time64 => Type::Primitive("::xdr::afs::Time64"),
            Base::Named(name) => Type::Named(self.named(name, &declaration.at)?),
            Base::Opaque | Base::String => unreachable!("`shaped` takes these in all shapes"),
        })
    }

    fn named(&self, name: &str, at: &crate::Location) -> Result<usize> {
        let unknown = || Error::meaning(at, format!("no type `{name}` is defined"));
        self.type_names.get(name).copied().ok_or_else(unknown)
    }

    fn number(&self, number: &Number) -> Result<i64> {
        match number {
            Number::Literal(value, _) => Ok(*value),
            Number::Named(name) => self.constants.value(name),
        }
    }

    /// Returns the size or bound of an array.
    fn size(&self, number: &Number) -> Result<u32> {
        let value = self.number(number)?;
        let refuse =
            || Error::meaning(number_at(number), format!("{value} is no array size: 1 to 4294967295 are"));
        u32::try_from(value).ok().filter(|&size| size > 0).ok_or_else(refuse)
    }

    fn package(&self, package: &Package) -> Result<PackageItem> {
        let prefix = &package.name.text;
        let mut procedures: Vec<ProcedureItem> = Vec::new();
        for procedure in &package.procedures {
            let opcode = match &procedure.opcode {
                None => procedure.implicit_opcode,
                Some(number) => u32::try_from(self.number(number)?)
                    .map_err(|_| Error::meaning(number_at(number), "an opcode is 0 to 4294967295"))?,
            };
            if let Some(same) = procedures.iter().find(|other| other.opcode == opcode) {
                let message =
                    format!("`{}` and `{}` both have opcode {opcode}", same.name.text, procedure.name.text);
                return Err(Error::meaning(&procedure.name.at, message));
            }
            procedures.push(ProcedureItem {
                full_name: format!("{prefix}{}", procedure.name.text),
                rust: names::type_name(&procedure.name.text),
                name: procedure.name.clone(),
                opcode,
                split: procedure.split,
                multi: procedure.multi,
                request: self.parameters(procedure, Direction::in_request)?,
                reply: self.parameters(procedure, Direction::in_reply)?,
            });
        }
        let replies: Vec<_> =
            procedures.iter().map(|item| (format!("{}Reply", item.rust), &item.name)).collect();
        let items = procedures.iter().map(|item| (&item.rust, &item.name));
        unique(
            items.chain(replies.iter().map(|(rust, name)| (rust, *name))),
            "procedures and their replies",
        )?;
        if let Some(clash) = procedures.iter().find(|item| RESERVED.contains(&&*item.rust)) {
            let rust = &clash.rust;
            return Err(Error::meaning(&clash.name.at, format!("a procedure cannot be called `{rust}`")));
        }
        let module = names::snake(prefix);
        Ok(PackageItem { name: package.name.clone(), module, statindex: package.statindex, procedures })
    }

    fn parameters(&self, procedure: &Procedure, travels: fn(Direction) -> bool) -> Result<Vec<Field>> {
        let travelling = procedure.parameters.iter().filter(|parameter| travels(parameter.direction));
        let fields: Vec<_> =
            travelling.map(|parameter| self.field(&parameter.declaration, true)).collect::<Result<_>>()?;
        unique(fields.iter().map(|field| (&field.rust, &field.name)), "parameters")?;
        Ok(fields)
    }
}

fn number_at(number: &Number) -> &crate::Location {
    match number {
        Number::Literal(_, at) => at,
        Number::Named(name) => &name.at,
    }
}

fn label_text(number: &Number) -> String {
    match number {
        Number::Literal(value, _) if *value < 0 => format!("CASE_MINUS_{}", value.unsigned_abs()),
        Number::Literal(value, _) => format!("CASE_{value}"),
        Number::Named(name) => name.text.clone(),
    }
}

/// Fails if two of `items` have the same Rust name, to which different names of the interface may lead.
fn unique<'n>(items: impl Iterator<Item = (&'n String, &'n Name)>, what: &str) -> Result<()> {
    let mut seen: HashMap<&String, &Name> = HashMap::new();
    for (rust, name) in items {
        if let Some(first) = seen.insert(rust, name) {
            let message = format!("{what} `{}` and `{}` would both be `{rust}`", first.text, name.text);
            return Err(Error::meaning(&name.at, message));
        }
    }
    Ok(())
}
