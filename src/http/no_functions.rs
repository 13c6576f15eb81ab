//! Functions of design documents where nothing here can run them.
//!
//! Invariant: there are none, so none is ever called.

use crate::error::Result;
use crate::vocabulary::Json;

/// Stands for functions in a build without JavaScript.
pub(super) enum NoFunctions {}

impl NoFunctions {
    pub(super) fn filter(&mut self, _: &[&str], _: &Json, _: &Json) -> Result<bool> {
        match *self {}
    }

    pub(super) fn update(&mut self, _: &[&str], _: &Json, _: &Json) -> Result<(Json, Json)> {
        match *self {}
    }

    pub(super) fn show(&mut self, _: &[&str], _: &Json, _: &Json) -> Result<Json> {
        match *self {}
    }

    pub(super) fn validate(&mut self, _: &Json, _: &Json, _: &Json, _: &Json) -> Result<()> {
        match *self {}
    }
}
