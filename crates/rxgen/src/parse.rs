//! Parser, from tokens to the syntax tree.

use crate::ast::*;
use crate::lexer::{Kind, Source, Token};
use crate::{Error, Location, Result};

/// Words that cannot name anything.
const KEYWORDS: [&str; 31] = [
    "const",
    "union",
    "switch",
    "case",
    "default",
    "struct",
    "typedef",
    "enum",
    "opaque",
    "bool",
    "void",
    "char",
    "int",
    "unsigned",
    "short",
    "afs_int32",
    "float",
    "double",
    "string",
    "package",
    "prefix",
    "statindex",
    "special",
    "startingopcode",
    "customized",
    "proc",
    "splitprefix",
    "IN",
    "OUT",
    "INOUT",
    "afsUUID",
];

/// Parses all tokens of an interface. Defines become constants as far as they have a value of their own; see
/// `resolve`.
pub(crate) fn interface(source: Source) -> Result<(Interface, Vec<crate::lexer::Define>)> {
    let mut parser = Parser {
        tokens: source.tokens,
        next: 0,
        interface: Interface::default(),
        direction: None,
        next_opcode: 0,
        implicit: false,
    };
    while parser.next < parser.tokens.len() {
        parser.definition()?;
    }
    Ok((parser.interface, source.defines))
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    interface: Interface,
    /// Direction of the last parameter, which the next one without a direction takes.
    direction: Option<Direction>,
    /// Opcode of the next procedure that has none of its own.
    next_opcode: u32,
    /// True when the current package counts its opcodes.
    implicit: bool,
}

impl Parser {
    fn definition(&mut self) -> Result<()> {
        let token = self.take();
        let Kind::Word(word) = &token.kind else {
            if token.kind == Kind::End {
                self.direction = None;
                return Ok(());
            }
            return Err(unexpected(&token, "a definition"));
        };
        match word.as_str() {
            "const" => self.constant(),
            "struct" => self.structure(),
            "customized" => {
                self.word("struct")?;
                self.structure()
            }
            "enum" => self.enumeration(),
            "union" => self.union(),
            "typedef" => {
                let declaration = self.declaration()?;
                self.punctuation(';')?;
                self.define(declaration.name.clone(), TypeKind::Alias(declaration))
            }
            "package" => self.package(),
            "prefix" => self.name("the prefix of server procedures").map(drop),
            "statindex" => self.statindex(&token.at),
            "startingopcode" => {
                self.next_opcode = self.unsigned("an opcode")?;
                self.implicit = true;
                Ok(())
            }
            "special" => self.special(),
            "splitprefix" => self.splitprefix(),
            "proc" => {
                let name = self.name("the procedure's name")?;
                self.procedure(name)
            }
            word if KEYWORDS.contains(&word) => Err(unexpected(&token, "a definition")),
            word => self.procedure(Name { text: word.to_owned(), at: token.at.clone() }),
        }
    }

    fn constant(&mut self) -> Result<()> {
        let name = self.name("the constant's name")?;
        self.punctuation('=')?;
        let token = self.take();
        let value = match token.kind {
            Kind::Number { value, hex } => Value::Integer { value, hex },
            Kind::Text(text) => Value::Text(text),
            Kind::Word(ref text) if !KEYWORDS.contains(&text.as_str()) => {
                Value::Same(Name { text: text.clone(), at: token.at })
            }
            _ => return Err(unexpected(&token, "an integer, a string or a constant's name")),
        };
        self.punctuation(';')?;
        self.interface.constants.push(Constant { name, value });
        Ok(())
    }

    fn structure(&mut self) -> Result<()> {
        let name = self.name("the struct's name")?;
        self.punctuation('{')?;
        let mut fields = Vec::new();
        while fields.is_empty() || !self.next_is('}') {
            fields.push(self.declaration()?);
            self.punctuation(';')?;
        }
        self.punctuation('}')?;
        self.punctuation(';')?;
        self.define(name, TypeKind::Struct(fields))
    }

    fn enumeration(&mut self) -> Result<()> {
        let name = self.name("the enum's name")?;
        self.punctuation('{')?;
        let mut members = Vec::new();
        loop {
            let member = self.name("an enumerator")?;
            let value = if self.skip('=') { Some(self.number()?) } else { None };
            members.push((member, value));
            // C allows a comma behind the last enumerator; rxgen does not.
            if !self.skip(',') || self.next_is('}') {
                break;
            }
        }
        self.punctuation('}')?;
        self.punctuation(';')?;
        self.define(name, TypeKind::Enum(members))
    }

    fn union(&mut self) -> Result<()> {
        let name = self.name("the union's name")?;
        self.word("switch")?;
        self.punctuation('(')?;
        let discriminant = self.declaration()?;
        self.punctuation(')')?;
        self.punctuation('{')?;
        let mut cases = Vec::new();
        while cases.is_empty() || self.next_word_is("case") {
            self.word("case")?;
            let mut labels = vec![self.number()?];
            self.punctuation(':')?;
            // RFC 4506 lets cases share an arm; rxgen does not.
            while self.skip_word("case") {
                labels.push(self.number()?);
                self.punctuation(':')?;
            }
            let arm = self.arm()?;
            cases.extend(labels.into_iter().map(|label| (label, arm.clone())));
        }
        let default = if self.skip_word("default") {
            self.punctuation(':')?;
            Some(self.arm()?)
        } else {
            None
        };
        self.punctuation('}')?;
        self.punctuation(';')?;
        self.define(name, TypeKind::Union { discriminant, cases, default })
    }

    fn arm(&mut self) -> Result<Option<Declaration>> {
        let arm = if self.skip_word("void") { None } else { Some(self.declaration()?) };
        self.punctuation(';')?;
        Ok(arm)
    }

    fn package(&mut self) -> Result<()> {
        let name = self.name("the package's prefix")?;
        self.implicit = false;
        self.interface.packages.push(Package { name, statindex: None, procedures: Vec::new() });
        Ok(())
    }

    fn statindex(&mut self, at: &Location) -> Result<()> {
        let index = self.unsigned("the package's statistics index")?;
        let Some(package) = self.interface.packages.last_mut() else {
            return Err(Error::meaning(at, "`statindex` before any `package`"));
        };
        if package.statindex.replace(index).is_some() {
            return Err(Error::meaning(at, format!("second `statindex` in package `{}`", package.name.text)));
        }
        Ok(())
    }

    /// Skips `special`, which tells rxgen which pointers its C server has to free.
    fn special(&mut self) -> Result<()> {
        self.base()?;
        self.name("a name")?;
        while self.skip(',') {
            self.name("a name")?;
        }
        self.punctuation(';')
    }

    /// Skips `splitprefix`, which renames the two C functions of a split procedure.
    fn splitprefix(&mut self) -> Result<()> {
        while !self.next_is(';') {
            if !self.skip_word("IN") {
                self.word("OUT")?;
            }
            self.punctuation('=')?;
            self.name("a prefix")?;
        }
        self.punctuation(';')
    }

    fn procedure(&mut self, name: Name) -> Result<()> {
        if self.interface.packages.is_empty() {
            return Err(Error::meaning(&name.at, format!("procedure `{}` before any `package`", name.text)));
        }
        if !self.next_is('(') {
            self.name("`(` or a server stub's name")?;
        }
        self.punctuation('(')?;
        let mut parameters = Vec::new();
        while !self.skip(')') {
            if !parameters.is_empty() {
                self.punctuation(',')?;
            }
            parameters.push(self.parameter()?);
        }
        let split = self.skip_word("split");
        let multi = !split && self.skip_word("multi");
        let opcode = if self.skip('=') { Some(self.number()?) } else { None };
        if opcode.is_none() && !self.next_is(';') {
            return Err(unexpected(&self.peek(), "`split`, `multi`, `= OPCODE` or `;`"));
        }
        self.punctuation(';')?;
        self.check_opcode_style(&name, opcode.is_some())?;
        let implicit_opcode = self.next_opcode;
        self.next_opcode = self.next_opcode.saturating_add(u32::from(opcode.is_none()));
        let procedure = Procedure { name, parameters, split, multi, opcode, implicit_opcode };
        let package = self.interface.packages.last_mut().expect("checked at the start");
        package.procedures.push(procedure);
        Ok(())
    }

    /// Checks that a package gives all its opcodes or none.
    fn check_opcode_style(&mut self, name: &Name, explicit: bool) -> Result<()> {
        if explicit && self.implicit {
            let message = format!("`{}` has an opcode, but its package counts opcodes", name.text);
            return Err(Error::meaning(&name.at, message));
        }
        self.implicit |= !explicit;
        Ok(())
    }

    fn parameter(&mut self) -> Result<Parameter> {
        for (word, direction) in [("IN", Direction::In), ("OUT", Direction::Out), ("INOUT", Direction::InOut)]
        {
            if self.skip_word(word) {
                self.direction = Some(direction);
            }
        }
        let Some(direction) = self.direction else {
            return Err(unexpected(&self.peek(), "`IN`, `OUT` or `INOUT` on a file's first parameter"));
        };
        let declaration = self.declaration()?;
        if direction.in_request() && matches!(declaration.shape, Shape::Variable(None)) {
            let message = format!("input array `{}` needs a bound", declaration.name.text);
            return Err(Error::meaning(&declaration.name.at, message));
        }
        Ok(Parameter { direction, declaration })
    }

    fn declaration(&mut self) -> Result<Declaration> {
        let (base, at) = self.base()?;
        let pointer = self.skip('*');
        let name = self.name("a name")?;
        let shape = if self.skip('[') {
            let size = self.number()?;
            self.punctuation(']')?;
            Shape::Fixed(size)
        } else if self.skip('<') {
            let bound = if self.next_is('>') { None } else { Some(self.number()?) };
            self.punctuation('>')?;
            Shape::Variable(bound)
        } else if pointer {
            return Ok(Declaration { base, at, shape: Shape::Pointer, name });
        } else {
            Shape::One
        };
        if pointer {
            return Err(Error::meaning(
                &name.at,
                format!("`{}` is an array of pointers: use a typedef", name.text),
            ));
        }
        match (&base, &shape) {
            (Base::Opaque, Shape::One) => Err(Error::meaning(&name.at, "opaque data needs a size or bound")),
            (Base::String, Shape::One | Shape::Fixed(_)) => {
                Err(Error::meaning(&name.at, "a string needs a bound in `<>`"))
            }
            _ => Ok(Declaration { base, at, shape, name }),
        }
    }

    fn base(&mut self) -> Result<(Base, Location)> {
        let token = self.take();
        let Kind::Word(word) = &token.kind else { return Err(unexpected(&token, "a type")) };
        let base = match word.as_str() {
            "char" => Base::Char,
            "short" => self.sized(Base::Short),
            "int" => Base::Int,
            "afs_int32" => self.sized(Base::Int),
            "unsigned" => self.unsigned_base(),
            "float" => Base::Float,
            "double" => Base::Double,
            "bool" => Base::Bool,
            "opaque" => Base::Opaque,
            "string" => Base::String,
            "struct" | "enum" | "union" => named(self.name("a type's name")?.text),
            "afsUUID" => Base::Uuid,
            word if KEYWORDS.contains(&word) => return Err(unexpected(&token, "a type")),
            word => named(word.to_owned()),
        };
        Ok((base, token.at))
    }

    /// Skips an `int` behind a type, as `short int` and `afs_int32 int` mean the same without it.
    fn sized(&mut self, base: Base) -> Base {
        self.skip_word("int");
        base
    }

    fn unsigned_base(&mut self) -> Base {
        if self.skip_word("char") {
            Base::UnsignedChar
        } else if self.skip_word("short") {
            self.sized(Base::UnsignedShort)
        } else {
            self.skip_word("afs_int32");
            self.sized(Base::Unsigned)
        }
    }

    fn define(&mut self, name: Name, kind: TypeKind) -> Result<()> {
        self.interface.types.push(TypeDefinition { name, kind });
        Ok(())
    }

    fn number(&mut self) -> Result<Number> {
        let token = self.take();
        match token.kind {
            Kind::Number { value, .. } => Ok(Number::Literal(value, token.at)),
            Kind::Word(ref word) if !KEYWORDS.contains(&word.as_str()) => {
                Ok(Number::Named(Name { text: word.clone(), at: token.at }))
            }
            _ => Err(unexpected(&token, "an integer or a constant's name")),
        }
    }

    fn unsigned(&mut self, expected: &str) -> Result<u32> {
        let token = self.take();
        match token.kind {
            Kind::Number { value, .. } => u32::try_from(value).map_err(|_| unexpected(&token, expected)),
            _ => Err(unexpected(&token, expected)),
        }
    }

    fn name(&mut self, expected: &str) -> Result<Name> {
        let token = self.take();
        match token.kind {
            Kind::Word(ref text) if !KEYWORDS.contains(&text.as_str()) => {
                Ok(Name { text: text.clone(), at: token.at })
            }
            _ => Err(unexpected(&token, expected)),
        }
    }

    fn punctuation(&mut self, expected: char) -> Result<()> {
        if self.skip(expected) { Ok(()) } else { Err(unexpected(&self.peek(), &format!("`{expected}`"))) }
    }

    fn word(&mut self, expected: &str) -> Result<()> {
        if self.skip_word(expected) {
            Ok(())
        } else {
            Err(unexpected(&self.peek(), &format!("`{expected}`")))
        }
    }

    fn skip(&mut self, punctuation: char) -> bool {
        let found = self.next_is(punctuation);
        self.next += usize::from(found);
        found
    }

    fn skip_word(&mut self, word: &str) -> bool {
        let found = self.next_word_is(word);
        self.next += usize::from(found);
        found
    }

    fn next_is(&self, punctuation: char) -> bool {
        self.tokens.get(self.next).is_some_and(|token| token.kind == Kind::Punctuation(punctuation))
    }

    fn next_word_is(&self, word: &str) -> bool {
        self.tokens
            .get(self.next)
            .is_some_and(|token| matches!(&token.kind, Kind::Word(text) if text == word))
    }

    /// Returns the next token, or the last end mark again behind the last token.
    fn peek(&self) -> Token {
        self.tokens[self.next.min(self.tokens.len() - 1)].clone()
    }

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.next += 1;
        token
    }
}

/// Returns the type of a name: 64-bit integers and times, which rxgen's runtime defines, or a type of the
/// interface.
fn named(name: String) -> Base {
    match name.as_str() {
        "afs_int64" => Base::Hyper,
        "afs_uint64" => Base::UnsignedHyper,
        "afs_uint32" => Base::Unsigned,
        "afs_time64" => Base::Time64,
        _ => Base::Named(name),
    }
}

fn unexpected(token: &Token, expected: &str) -> Error {
    let found = match &token.kind {
        Kind::Word(word) => format!("`{word}`"),
        Kind::Number { value, .. } => format!("`{value}`"),
        Kind::Text(text) => format!("\"{text}\""),
        Kind::Punctuation(char) => format!("`{char}`"),
        Kind::End => "the end of the file".to_owned(),
    };
    Error::Syntax { at: token.at.clone(), expected: expected.to_owned(), found }
}
