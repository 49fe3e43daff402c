//! Server of a package: a trait with one asynchronous function for each procedure, and its dispatch.

use crate::emit::Place;
use crate::emit::code::Code;
use crate::emit::procedure::{opcode_name, properties};
use crate::names;
use crate::resolve::{PackageItem, ProcedureItem, SERVER};

/// Generates the trait and the function that serves a call with it.
pub(super) fn emit(package: &PackageItem, place: Place<'_>, code: &mut Code) {
    let count = package.procedures.len();
    code.gap();
    code.line("/// Statistics of this package's procedures, in the order of [`PROCEDURES`].");
    code.line(format!("pub type Tally = ::xdr::rpc::Tally<{count}>;"));
    server(package, place, code);
    serve(package, place, code);
}

fn server(package: &PackageItem, place: Place<'_>, code: &mut Code) {
    code.gap();
    code.line("/// What a server of this package does: its parameters in, those of the reply out. A refusal is the call's abort code.");
    code.line("///");
    code.line("/// In a split procedure the call stands at the raw bytes that follow the parameters: the function reads them, or");
    code.line("/// writes those that precede the reply's. Procedures that are not written are refused as RXGEN_OPCODE.");
    code.line("#[allow(unused_variables)]");
    code.line(format!("pub trait {SERVER}<C: ::xdr::rpc::CallStream> {{"));
    for procedure in &package.procedures {
        let ProcedureItem { full_name, rust, split, .. } = procedure;
        let request = if properties(&procedure.request, place).borrows { "<'_>" } else { "" };
        let reply = if properties(&procedure.reply, place).borrows { "<'static>" } else { "" };
        let call = if *split { "&mut C" } else { "&C" };
        code.gap();
        code.line(format!("/// `{full_name}`."));
        code.line(format!("fn {}(", function(procedure)));
        code.line("&self,");
        code.line(format!("call: {call},"));
        code.line(format!("request: {rust}{request},"));
        code.line(format!(
            ") -> impl ::core::future::Future<Output = ::core::result::Result<{rust}Reply{reply}, ::xdr::rpc::Failure<C::Error>>> {{"
        ));
        code.line(format!(
            "let fault = ::xdr::rpc::Fault::UnknownOpcode {{ opcode: opcode::{} }};",
            opcode_name(procedure)
        ));
        code.line("async move { ::core::result::Result::Err(::xdr::rpc::Failure::Fault(fault)) }");
        code.line("}");
    }
    code.line("}");
}

fn serve(package: &PackageItem, place: Place<'_>, code: &mut Code) {
    code.gap();
    code.line("/// Serves one call: reads what it asks for, has `server` do it, writes the reply and ends our stream.");
    code.line("///");
    code.line("/// # Errors");
    code.line("/// What the call is to be aborted with, if it has not ended.");
    code.line(format!("pub async fn serve<C: ::xdr::rpc::CallStream, S: {SERVER}<C>>("));
    code.line("server: &S,");
    code.line("call: &mut C,");
    code.line("tally: &Tally,");
    code.line(") -> ::core::result::Result<(), ::xdr::rpc::Failure<C::Error>> {");
    code.line("let began = call.now();");
    code.line("let opcode = ::xdr::rpc::opcode(call).await.inspect_err(|failure| tally.refuse(failure))?;");
    code.line("match opcode {");
    for (index, procedure) in package.procedures.iter().enumerate() {
        let ProcedureItem { rust, split, .. } = procedure;
        let request = if properties(&procedure.request, place).borrows { "<'static>" } else { "" };
        let (read, lent) = if *split { ("split", "&mut *call") } else { ("plain", "&*call") };
        code.line(format!("opcode::{} => {{", opcode_name(procedure)));
        code.line(format!("tally.begin({index});"));
        code.line(
            "// A box for each: else what serves the smallest would be as large as what serves the largest.",
        );
        code.line("let outcome = ::std::boxed::Box::pin(async {");
        code.line(format!("let arguments = ::xdr::rpc::Arguments::<{rust}{request}>::{read}(call).await?;"));
        code.line(format!("let reply = server.{}({lent}, arguments.get()).await?;", function(procedure)));
        code.line(format!("::xdr::rpc::reply::<{rust}{request}, C>(call, &reply).await"));
        code.line("})");
        code.line(".await;");
        code.line(format!("tally.end({index}, began, call.now(), &outcome);"));
        code.line("outcome");
        code.line("}");
    }
    code.line("opcode => {");
    code.line("let fault = ::xdr::rpc::Fault::UnknownOpcode { opcode };");
    code.line("let failure = ::xdr::rpc::Failure::Fault(fault);");
    code.line("tally.refuse(&failure);");
    code.line("::core::result::Result::Err(failure)");
    for _ in 0..3 {
        code.line("}");
    }
}

fn function(procedure: &ProcedureItem) -> String {
    names::snake(&procedure.name.text)
}
