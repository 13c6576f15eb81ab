//! Functions of design documents, once more: the tests of the root that plant bugs in JavaScript.

use super::Outcome;
use crate::campaign::Context;

#[path = "../../../../tests/javascript/functions.rs"]
#[allow(dead_code, unused_imports)] // what only the tests there use
mod functions;
#[path = "../../../../tests/javascript/reducer.rs"]
#[allow(dead_code, unused_imports)] // what only the tests there use
mod reducer;
#[path = "../../../../tests/javascript/support.rs"]
// What only the tests there use; and another check reads recordings, too.
#[allow(dead_code, unused_imports, clippy::duplicate_mod)]
mod support;

/// What functions see and give, and reducers made of them. They panic where something differs.
pub(super) fn functions(_: &Context) -> Outcome {
    functions::functions_do_as_they_should();
    reducer::reducers_do_as_they_should();
    Ok(())
}
