//! stub
use crate::outcome::Outcome;
use crate::output::Output;
/// Tour
#[derive(clap::Args)]
pub(crate) struct Tour {}
impl Tour {
    pub(crate) fn run(self, _out: &mut Output) -> Outcome {
        Ok(())
    }
}
