//! Values of constants, defines and enumerators, which may refer to each other.

use std::collections::{HashMap, HashSet};

use crate::ast::{Interface, Name, Number, TypeKind, Value};
use crate::expr::{self, Scope};
use crate::lexer::Define;
use crate::names;
use crate::resolve::{ConstantItem, unique};
use crate::{Error, Result};

/// Bound of references from constant to constant; more mean a cycle.
const MAX_DEPTH: u32 = 100;

/// Constants, defines and enumerators by name.
#[derive(Debug)]
pub(crate) struct Constants<'i> {
    interface: &'i Interface,
    defines: &'i [Define],
    by_name: HashMap<&'i str, Definition<'i>>,
}

#[derive(Debug, Clone, Copy)]
enum Definition<'i> {
    Constant(&'i Value),
    Define(&'i str),
    /// Enumerator without a value of its own: `after` places behind `from`, or behind -1.
    Enumerator {
        from: Option<&'i Number>,
        after: i64,
    },
}

impl Scope for Constants<'_> {
    fn value(&self, name: &str, depth: u32) -> Option<i64> {
        if depth > MAX_DEPTH {
            return None;
        }
        match *self.by_name.get(name)? {
            Definition::Constant(Value::Integer { value, .. }) => Some(*value),
            Definition::Constant(Value::Text(_)) => None,
            Definition::Constant(Value::Same(name)) => Scope::value(self, &name.text, depth + 1),
            Definition::Define(body) => expr::evaluate(body, self, depth),
            Definition::Enumerator { from: None, after } => Some(after - 1),
            Definition::Enumerator { from: Some(Number::Literal(value, _)), after } => {
                value.checked_add(after)
            }
            Definition::Enumerator { from: Some(Number::Named(name)), after } => {
                Scope::value(self, &name.text, depth + 1)?.checked_add(after)
            }
        }
    }

    fn defined(&self, _: &str) -> Option<bool> {
        None
    }
}

impl<'i> Constants<'i> {
    pub(crate) fn new(interface: &'i Interface, defines: &'i [Define]) -> Result<Self> {
        let mut by_name = HashMap::new();
        // A `const` or enumerator wins over a define of the same name.
        for define in defines {
            by_name.insert(define.name.text.as_str(), Definition::Define(&define.body));
        }
        let mut seen = HashSet::new();
        let mut add = |name: &'i Name, definition| {
            by_name.insert(name.text.as_str(), definition);
            let twice = || Error::meaning(&name.at, format!("constant `{}` is defined twice", name.text));
            if seen.insert(name.text.as_str()) { Ok(()) } else { Err(twice()) }
        };
        for constant in &interface.constants {
            add(&constant.name, Definition::Constant(&constant.value))?;
        }
        for definition in &interface.types {
            let TypeKind::Enum(members) = &definition.kind else { continue };
            let (mut from, mut after) = (None, 1);
            for (name, value) in members {
                if value.is_some() {
                    (from, after) = (value.as_ref(), 0);
                }
                add(name, Definition::Enumerator { from, after })?;
                after += 1;
            }
        }
        Ok(Self { interface, defines, by_name })
    }

    /// Returns the value of `name`, which has to be an integer.
    pub(crate) fn value(&self, name: &Name) -> Result<i64> {
        let unknown = || Error::meaning(&name.at, format!("`{}` is no integer constant", name.text));
        Scope::value(self, &name.text, 0).ok_or_else(unknown)
    }

    /// Returns the constants to generate: all `const`, and the defines that have a value.
    pub(crate) fn listed(&self) -> Result<Vec<ConstantItem>> {
        let mut items = Vec::new();
        for constant in &self.interface.constants {
            let value = match &constant.value {
                Value::Same(other) => Value::Integer { value: self.value(other)?, hex: false },
                value => value.clone(),
            };
            items.push((&constant.name, value));
        }
        for define in self.defines {
            let overridden =
                !matches!(self.by_name.get(define.name.text.as_str()), Some(Definition::Define(_)));
            if let Some(value) = self.define_value(&define.body).filter(|_| !overridden) {
                items.push((&define.name, value));
            }
        }
        let item = |(name, value): (&Name, Value)| {
            let rust = names::screaming(&name.text);
            ConstantItem { name: name.clone(), rust, value }
        };
        let items: Vec<_> = items.into_iter().map(item).collect();
        unique(items.iter().map(|item| (&item.rust, &item.name)), "constants")?;
        Ok(items)
    }

    fn define_value(&self, body: &str) -> Option<Value> {
        let text = body.strip_prefix('"').and_then(|body| body.strip_suffix('"'));
        if let Some(text) = text.filter(|text| !text.contains(['"', '\\'])) {
            return Some(Value::Text(text.to_owned()));
        }
        let value = expr::evaluate(body, self, 0)?;
        Some(Value::Integer { value, hex: body.starts_with("0x") })
    }
}
