//! A package's module: opcodes, the structs of requests and replies, and the server's dispatch.

use crate::emit::code::Code;
use crate::emit::procedure::{opcode_name, properties};
use crate::emit::types::structure;
use crate::emit::{Place, origin, service};
use crate::resolve::{Model, PackageItem, ProcedureItem, REQUEST, combined};

/// Generates the module of one package.
pub(super) fn emit(package: &PackageItem, model: &Model, code: &mut Code) {
    let place = Place { model, path: "super::", lifetime: "'a" };
    code.gap();
    code.line(format!("/// Package {}.", origin(&package.name)));
    // A file is often included in a module that has the package's name too.
    code.line("#[allow(clippy::module_inception)]");
    code.line(format!("pub mod {} {{", package.module));
    if let Some(index) = package.statindex {
        code.line("/// The number under which stock servers keep this package's call statistics.");
        code.line(format!("pub const STATINDEX: u32 = {index};"));
    }
    if !package.procedures.is_empty() {
        opcodes(package, code);
        table(package, code);
        for procedure in &package.procedures {
            self::procedure(procedure, place, code);
        }
        dispatch(package, place, code);
        service::emit(package, place, code);
    }
    code.line("}");
}

fn opcodes(package: &PackageItem, code: &mut Code) {
    code.gap();
    code.line("/// The number that stands first in a request.");
    code.line("pub mod opcode {");
    for procedure in &package.procedures {
        code.line(format!("/// `{}`.", procedure.full_name));
        code.line(format!("pub const {}: u32 = {};", opcode_name(procedure), procedure.opcode));
    }
    code.line("}");
}

fn table(package: &PackageItem, code: &mut Code) {
    code.gap();
    code.line("/// All procedures, in the order that call statistics count them.");
    code.line(format!("pub const PROCEDURES: [::xdr::rpc::Entry; {}] = [", package.procedures.len()));
    for procedure in &package.procedures {
        let ProcedureItem { full_name, split, multi, .. } = procedure;
        let opcode = opcode_name(procedure);
        code.line(format!(
            "::xdr::rpc::Entry {{ name: \"{full_name}\", opcode: opcode::{opcode}, split: {split}, multi: {multi} }},"
        ));
    }
    code.line("];");
}

fn procedure(procedure: &ProcedureItem, place: Place<'_>, code: &mut Code) {
    let ProcedureItem { full_name, rust, opcode, split, multi, .. } = procedure;
    let request = properties(&procedure.request, place);
    let reply = properties(&procedure.reply, place);

    code.gap();
    let kind = if *split { ", split" } else { "" };
    code.line(format!("/// Request of {}: opcode {opcode}{kind}.", origin(&procedure.name)));
    structure(rust, &procedure.request, request, place, code);
    code.gap();
    code.line(format!("/// Reply of `{}`.", procedure.name.text));
    structure(&format!("{rust}Reply"), &procedure.reply, reply, place, code);

    let anonymous = if request.borrows { "<'_>" } else { "" };
    let reply_generics = if reply.borrows { "<'r>" } else { "" };
    code.gap();
    code.line(format!("impl ::xdr::rpc::Procedure for {rust}{anonymous} {{"));
    code.line(format!("const NAME: &'static str = \"{full_name}\";"));
    code.line(format!("const OPCODE: u32 = opcode::{};", opcode_name(procedure)));
    code.line(format!("const MULTI: bool = {multi};"));
    let request_generics = if request.borrows { "<'r>" } else { "" };
    code.line(format!("type Request<'r> = {rust}{request_generics};"));
    code.line(format!("type Reply<'r> = {rust}Reply{reply_generics};"));
    code.line("}");
    code.gap();
    let call = if *split { "SplitCall" } else { "Call" };
    code.line(format!("impl ::xdr::rpc::{call} for {rust}{anonymous} {{}}"));
}

fn dispatch(package: &PackageItem, place: Place<'_>, code: &mut Code) {
    let requests = combined(package.procedures.iter().map(|procedure| properties(&procedure.request, place)));
    let generics = place.generics(requests.borrows);
    let lifetime = if requests.borrows { place.lifetime } else { "'_" };
    let hash = if requests.eq { ", Eq, Hash" } else { "" };

    code.gap();
    code.line("/// A request to this package.");
    code.line(format!("#[derive(Debug, Clone, PartialEq{hash})]"));
    code.line("#[allow(clippy::large_enum_variant)]");
    code.line(format!("pub enum {REQUEST}{generics} {{"));
    for procedure in &package.procedures {
        let generics = place.generics(properties(&procedure.request, place).borrows);
        code.line(format!("/// `{}`.", procedure.full_name));
        code.line(format!("{0}({0}{generics}),", procedure.rust));
    }
    code.line("}");

    code.gap();
    code.line(format!("impl{generics} {REQUEST}{generics} {{"));
    code.line(
        "/// Reads the opcode and its parameters. Behind a split request the reader stands at the raw bytes.",
    );
    code.line(format!(
        "pub fn decode(reader: &mut ::xdr::Reader<{lifetime}>) -> ::xdr::Result<Self, ::xdr::rpc::Fault> {{"
    ));
    code.line("match ::xdr::rpc::decode_opcode(reader)? {");
    for procedure in &package.procedures {
        let opcode = opcode_name(procedure);
        code.line(format!(
            "opcode::{opcode} => ::xdr::rpc::decode_arguments(reader).map(Self::{}),",
            procedure.rust
        ));
    }
    code.line("opcode => Err(::xdr::rpc::Fault::UnknownOpcode { opcode }),");
    code.line("}");
    code.line("}");

    code.gap();
    code.line("/// The procedure asked for: its index in [`PROCEDURES`].");
    code.line("pub const fn index(&self) -> usize {");
    code.line("match self {");
    for (index, procedure) in package.procedures.iter().enumerate() {
        code.line(format!("Self::{}(_) => {index},", procedure.rust));
    }
    for _ in 0..3 {
        code.line("}");
    }
}
