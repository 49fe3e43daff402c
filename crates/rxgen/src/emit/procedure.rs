//! What of a procedure both its opcode and its server need.

use crate::emit::Place;
use crate::names;
use crate::resolve::{Field, ProcedureItem, Properties, combined, of};

pub(super) fn properties(fields: &[Field], place: Place<'_>) -> Properties {
    combined(fields.iter().map(|field| of(&field.ty, &place.model.types)))
}

pub(super) fn opcode_name(procedure: &ProcedureItem) -> String {
    let snake = names::snake(&procedure.name.text);
    snake.trim_start_matches("r#").to_ascii_uppercase()
}
