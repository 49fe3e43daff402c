//! Derivation of the properties that types inherit from their parts, through any recursion.

use crate::resolve::{ItemKind, Properties, Type, TypeItem};
use crate::{Error, Result};

/// Length of the longest array with a `Default` in the standard library.
pub(crate) const LONGEST_DEFAULT_ARRAY: u32 = 32;

/// Fills in the properties of all types; fails on a type that contains itself without a pointer or list between.
pub(crate) fn derive(types: &mut [TypeItem]) -> Result<()> {
    if let Some(endless) = types.iter().find(|item| contains_itself(item, types) || names_itself(item, types))
    {
        let message = format!("type `{}` contains itself: no value of it would end", endless.name.text);
        return Err(Error::meaning(&endless.name.at, message));
    }
    // Properties only ever get worse, and sizes pass no pointer or list, so this ends.
    loop {
        let next: Vec<_> = types.iter().map(|item| properties_of(&item.kind, types)).collect();
        let mut changed = false;
        for (item, next) in types.iter_mut().zip(next) {
            changed |= item.properties != next;
            item.properties = next;
        }
        if !changed {
            return Ok(());
        }
    }
}

/// Returns the properties of a type that is composed of `parts`.
pub(crate) fn combined(parts: impl Iterator<Item = Properties>) -> Properties {
    parts.fold(Properties::default(), |all, part| Properties {
        borrows: all.borrows || part.borrows,
        copy: all.copy && part.copy,
        eq: all.eq && part.eq,
        default: all.default && part.default,
        min_size: all.min_size.saturating_add(part.min_size),
    })
}

pub(crate) fn of(ty: &Type, types: &[TypeItem]) -> Properties {
    let plain = Properties::default();
    let padded = |len: u32| (len as usize).next_multiple_of(4);
    match ty {
        Type::Primitive(name) => {
            let min_size = match *name {
                "i64" | "u64" | "f64" | "::xdr::afs::Time64" => 8,
                "::xdr::afs::AfsUuid" => 44,
                _ => 4,
            };
            Properties { eq: !matches!(*name, "f32" | "f64"), min_size, ..plain }
        }
        Type::Chars(len) => Properties { min_size: 4 * *len as usize, ..plain },
        Type::Opaque(len) => Properties { min_size: padded(*len), ..plain },
        Type::Bytes(_) => Properties { borrows: true, copy: false, min_size: 4, ..plain },
        Type::Named(index) => types[*index].properties,
        Type::Array(element, len) => {
            let element = of(element, types);
            Properties { min_size: element.min_size.saturating_mul(*len as usize), ..element }
        }
        Type::List(element, _) | Type::Optional(element) => {
            Properties { copy: false, default: true, min_size: 4, ..of(element, types) }
        }
    }
}

fn properties_of(kind: &ItemKind, types: &[TypeItem]) -> Properties {
    match kind {
        ItemKind::Struct(fields) => combined(fields.iter().map(|field| of(&field.ty, types))),
        ItemKind::Enum(_) => Properties { default: false, min_size: 4, ..Properties::default() },
        ItemKind::Alias(target) => of(target, types),
        ItemKind::Union(union) => {
            let arms = || {
                let default = union.default.iter().map(|arm| arm.as_ref());
                union.arms.iter().map(|arm| arm.ty.as_ref()).chain(default)
            };
            let all = combined(arms().flatten().map(|ty| of(ty, types)));
            let smallest = arms().map(|ty| ty.map_or(0, |ty| of(ty, types).min_size)).min().unwrap_or(0);
            Properties { default: false, min_size: smallest.saturating_add(4), ..all }
        }
    }
}

fn contains_itself(item: &TypeItem, types: &[TypeItem]) -> bool {
    let target = types.iter().position(|other| core::ptr::eq(other, item));
    let mut seen = vec![false; types.len()];
    let mut open: Vec<usize> = direct_parts(&item.kind);
    while let Some(index) = open.pop() {
        if Some(index) == target {
            return true;
        }
        if !core::mem::replace(&mut seen[index], true) {
            open.extend(direct_parts(&types[index].kind));
        }
    }
    false
}

/// Returns whether a typedef leads back to itself, be it through pointers and lists, with no struct or union
/// between: Rust has no name for such a type.
fn names_itself(item: &TypeItem, types: &[TypeItem]) -> bool {
    fn target(item: &TypeItem) -> Option<usize> {
        let ItemKind::Alias(ty) = &item.kind else { return None };
        let mut ty = ty;
        loop {
            match ty {
                Type::Named(index) => return Some(*index),
                Type::Array(inner, _) | Type::List(inner, _) | Type::Optional(inner) => ty = inner,
                Type::Primitive(_) | Type::Chars(_) | Type::Opaque(_) | Type::Bytes(_) => return None,
            }
        }
    }
    let mut next = target(item);
    for _ in 0..types.len() {
        let Some(index) = next else { return false };
        next = target(&types[index]);
    }
    next.is_some()
}

/// Returns the types that a value of `kind` holds directly, without a pointer or list between.
fn direct_parts(kind: &ItemKind) -> Vec<usize> {
    fn named(ty: &Type) -> Option<usize> {
        match ty {
            Type::Named(index) => Some(*index),
            Type::Array(element, _) => named(element),
            _ => None,
        }
    }
    match kind {
        ItemKind::Struct(fields) => fields.iter().filter_map(|field| named(&field.ty)).collect(),
        ItemKind::Enum(_) => Vec::new(),
        ItemKind::Alias(target) => named(target).into_iter().collect(),
        ItemKind::Union(union) => {
            let default = union.default.iter().flatten();
            union.arms.iter().filter_map(|arm| arm.ty.as_ref()).chain(default).filter_map(named).collect()
        }
    }
}
