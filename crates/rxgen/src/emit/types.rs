//! Structs, enumerations, unions and aliases with their codecs.

use crate::emit::code::Code;
use crate::emit::{Place, origin};
use crate::resolve::{
    Field, ItemKind, LONGEST_DEFAULT_ARRAY, Member, Model, OTHER, Properties, Switch, Type,
};
use crate::resolve::{TypeItem, Union};

/// Generates one type of the interface.
pub(super) fn emit(item: &TypeItem, model: &Model, code: &mut Code) {
    let place = Place { model, path: "", lifetime: "'a" };
    code.gap();
    code.line(format!("/// {}.", origin(&item.name)));
    match &item.kind {
        ItemKind::Struct(fields) => structure(&item.rust, fields, item.properties, place, code),
        ItemKind::Enum(members) => enumeration(&item.rust, members, code),
        ItemKind::Union(union) => self::union(item, union, place, code),
        ItemKind::Alias(target) => {
            let generics = place.generics(item.properties.borrows);
            code.line(format!("pub type {}{generics} = {};", item.rust, place.ty(target)));
        }
    }
}

/// Generates a struct whose encoding is that of its fields in order. The caller has written its first doc
/// line.
pub(super) fn structure(
    rust: &str,
    fields: &[Field],
    properties: Properties,
    place: Place<'_>,
    code: &mut Code,
) {
    let default =
        properties.default && fields.iter().all(|field| default_is_derivable(&field.ty, place.model));
    derives(Properties { default, ..properties }, code);
    if fields.is_empty() {
        code.line(format!("pub struct {rust};"));
    } else {
        code.line(format!("pub struct {rust}{} {{", place.generics(properties.borrows)));
        for field in fields {
            code.line(format!("/// `{}`.", field.name.text));
            code.line(format!("pub {}: {},", field.rust, place.ty(&field.ty)));
        }
        code.line("}");
    }
    if properties.default && !default {
        manual_default(rust, fields, properties.borrows, place.model, code);
    }
    encode(rust, properties.borrows, fields.is_empty(), code, |code| {
        for field in fields {
            code.line(format!("writer.value(&self.{})?;", field.rust));
        }
        code.line("Ok(())");
    });
    decode(rust, properties, fields.is_empty(), place, code, |code| {
        if fields.is_empty() {
            code.line("Ok(Self)");
            return;
        }
        code.line("Ok(Self {");
        for field in fields {
            code.line(format!("{}: reader.value()?,", field.rust));
        }
        code.line("})");
    });
}

fn enumeration(rust: &str, members: &[Member], code: &mut Code) {
    code.line("#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]");
    code.line("#[repr(i32)]");
    code.line(format!("pub enum {rust} {{"));
    for member in members {
        code.line(format!("/// `{}`.", member.name.text));
        code.line(format!("{} = {},", member.rust, member.value));
    }
    code.line("}");
    code.gap();
    code.line(format!("impl {rust} {{"));
    code.line("/// The member with this value.");
    code.line("pub const fn from_i32(value: i32) -> ::core::option::Option<Self> {");
    code.line("match value {");
    for member in members {
        code.line(format!("{} => Some(Self::{}),", member.value, member.rust));
    }
    code.line("_ => None,");
    for _ in 0..3 {
        code.line("}");
    }
    encode(rust, false, false, code, |code| code.line("writer.value(&(*self as i32))"));
    let properties = Properties { min_size: 4, ..Properties::default() };
    code.gap();
    decode_head(rust, properties, "'_", code);
    code.line("fn decode(reader: &mut ::xdr::Reader<'_>) -> ::xdr::Result<Self> {");
    code.line("let offset = reader.position();");
    code.line("let value: i32 = reader.value()?;");
    let error = bad_enum(rust, "value.into()");
    code.line(format!("Self::from_i32(value).ok_or({error})"));
    code.line("}");
    code.line("}");
}

fn union(item: &TypeItem, union: &Union, place: Place<'_>, code: &mut Code) {
    let switch = switch_type(&union.switch, place);
    derives(Properties { default: false, ..item.properties }, code);
    code.line(format!("pub enum {}{} {{", item.rust, place.generics(item.properties.borrows)));
    for arm in &union.arms {
        code.line(format!("/// `{}`.", arm.name.text));
        let held = arm.ty.as_ref().map(|ty| format!("({})", place.ty(ty))).unwrap_or_default();
        code.line(format!("{}{held},", arm.rust));
    }
    if let Some(default) = &union.default {
        code.line("/// Any other discriminant.");
        let held = default.as_ref().map(|ty| format!(", {}", place.ty(ty))).unwrap_or_default();
        code.line(format!("{OTHER}({switch}{held}),"));
    }
    code.line("}");
    encode(&item.rust, item.properties.borrows, false, code, |code| union_encode(union, place, code));
    decode(&item.rust, item.properties, false, place, code, |code| union_decode(item, union, place, code));
}

fn union_encode(union: &Union, place: Place<'_>, code: &mut Code) {
    code.line("match self {");
    for arm in &union.arms {
        let label = label(&union.switch, arm.value, place);
        let typed = match union.switch {
            Switch::Signed => format!("{label}_i32"),
            Switch::Unsigned => format!("{label}_u32"),
            Switch::Bool | Switch::Enum(_) => label,
        };
        if arm.ty.is_some() {
            code.line(format!("Self::{}(value) => {{", arm.rust));
            code.line(format!("writer.value(&{typed})?;"));
            code.line("writer.value(value)");
            code.line("}");
        } else {
            code.line(format!("Self::{} => writer.value(&{typed}),", arm.rust));
        }
    }
    match &union.default {
        Some(Some(_)) => {
            code.line(format!("Self::{OTHER}(discriminant, value) => {{"));
            code.line("writer.value(discriminant)?;");
            code.line("writer.value(value)");
            code.line("}");
        }
        Some(None) => code.line(format!("Self::{OTHER}(discriminant) => writer.value(discriminant),")),
        None => {}
    }
    code.line("}");
}

fn union_decode(item: &TypeItem, union: &Union, place: Place<'_>, code: &mut Code) {
    let fails = union.default.is_none() && !union.exhaustive;
    if fails {
        code.line("let offset = reader.position();");
    }
    code.line(format!("match reader.value::<{}>()? {{", switch_type(&union.switch, place)));
    for arm in &union.arms {
        let label = label(&union.switch, arm.value, place);
        match arm.ty {
            Some(_) => code.line(format!("{label} => reader.value().map(Self::{}),", arm.rust)),
            None => code.line(format!("{label} => Ok(Self::{}),", arm.rust)),
        }
    }
    match &union.default {
        Some(_) if union.exhaustive => {}
        Some(Some(_)) => {
            code.line(format!("other => reader.value().map(|value| Self::{OTHER}(other, value)),"))
        }
        Some(None) => code.line(format!("other => Ok(Self::{OTHER}(other)),")),
        None if union.exhaustive => {}
        None => {
            let value = match union.switch {
                Switch::Enum(_) => "i64::from(other as i32)",
                Switch::Signed | Switch::Unsigned | Switch::Bool => "other.into()",
            };
            code.line(format!("other => Err({}),", bad_enum(&item.rust, value)));
        }
    }
    code.line("}");
}

/// Returns a case label as a Rust pattern and expression of the discriminant's type.
fn label(switch: &Switch, value: i64, place: Place<'_>) -> String {
    match switch {
        Switch::Signed | Switch::Unsigned => value.to_string(),
        Switch::Bool => (value != 0).to_string(),
        Switch::Enum(index) => {
            let item = &place.model.types[*index];
            let ItemKind::Enum(members) = &item.kind else { return value.to_string() };
            let member = members.iter().find(|member| i64::from(member.value) == value);
            member.map(|member| format!("{}::{}", item.rust, member.rust)).unwrap_or_default()
        }
    }
}

fn switch_type(switch: &Switch, place: Place<'_>) -> String {
    match switch {
        Switch::Signed => "i32".to_owned(),
        Switch::Unsigned => "u32".to_owned(),
        Switch::Bool => "bool".to_owned(),
        Switch::Enum(index) => place.ty(&Type::Named(*index)),
    }
}

fn bad_enum(rust: &str, value: &str) -> String {
    format!("::xdr::Error::BadEnum {{ offset, value: {value}, type_name: \"{rust}\" }}")
}

fn derives(properties: Properties, code: &mut Code) {
    let mut traits = vec!["Debug", "Clone"];
    traits.extend(properties.copy.then_some("Copy"));
    traits.push("PartialEq");
    traits.extend(properties.eq.then_some(["Eq", "Hash"]).into_iter().flatten());
    traits.extend(properties.default.then_some("Default"));
    code.line(format!("#[derive({})]", traits.join(", ")));
}

/// Returns whether the standard library has a `Default` for a field of this type.
fn default_is_derivable(ty: &Type, model: &Model) -> bool {
    match unaliased(ty, model) {
        Type::Array(element, len) => *len <= LONGEST_DEFAULT_ARRAY && default_is_derivable(element, model),
        _ => true,
    }
}

fn default_value(ty: &Type, model: &Model) -> String {
    match unaliased(ty, model) {
        Type::Array(element, _) if !default_is_derivable(ty, model) => {
            format!("::core::array::from_fn(|_| {})", default_value(element, model))
        }
        _ => "Default::default()".to_owned(),
    }
}

fn unaliased<'m>(mut ty: &'m Type, model: &'m Model) -> &'m Type {
    while let Type::Named(index) = ty
        && let ItemKind::Alias(target) = &model.types[*index].kind
    {
        ty = target;
    }
    ty
}

fn manual_default(rust: &str, fields: &[Field], borrows: bool, model: &Model, code: &mut Code) {
    code.gap();
    code.line(format!("impl ::core::default::Default for {rust}{} {{", if borrows { "<'_>" } else { "" }));
    code.line("fn default() -> Self {");
    code.line("Self {");
    for field in fields {
        code.line(format!("{}: {},", field.rust, default_value(&field.ty, model)));
    }
    for _ in 0..3 {
        code.line("}");
    }
}

fn encode(rust: &str, borrows: bool, unused: bool, code: &mut Code, body: impl FnOnce(&mut Code)) {
    let writer = if unused { "_" } else { "writer" };
    code.gap();
    code.line(format!("impl ::xdr::Encode for {rust}{} {{", if borrows { "<'_>" } else { "" }));
    code.line(format!(
        "fn encode<S: ::xdr::Sink>(&self, {writer}: &mut ::xdr::Writer<S>) -> ::xdr::Result<()> {{"
    ));
    body(code);
    code.line("}");
    code.line("}");
}

fn decode(
    rust: &str,
    properties: Properties,
    unused: bool,
    place: Place<'_>,
    code: &mut Code,
    body: impl FnOnce(&mut Code),
) {
    let reader = if unused { "_" } else { "reader" };
    let lifetime = if properties.borrows { place.lifetime } else { "'_" };
    code.gap();
    decode_head(rust, properties, lifetime, code);
    code.line(format!("fn decode({reader}: &mut ::xdr::Reader<{lifetime}>) -> ::xdr::Result<Self> {{"));
    body(code);
    code.line("}");
    code.line("}");
}

fn decode_head(rust: &str, properties: Properties, lifetime: &str, code: &mut Code) {
    let generics = if properties.borrows { format!("<{lifetime}>") } else { String::new() };
    code.line(format!("impl{generics} ::xdr::Decode<{lifetime}> for {rust}{generics} {{"));
    code.line(format!("const MIN_SIZE: usize = {};", properties.min_size));
    code.line("");
}
