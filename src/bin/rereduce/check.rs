//! `check`: verifies everything under a commit.

use rereduce::vocabulary::Json;

use crate::opening::Source;
use crate::outcome::{Failure, Outcome};
use crate::output::{Output, Style, counted, number, object};

/// Verify everything that is alive: trees, documents, attachments
///
/// Exits with 1 if anything is wrong, and with 4 if the database does not even open.
#[derive(clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    source: Source,
}

impl Check {
    // spec: CLI-1
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let snapshot = self.source.snapshot()?;
        let checked = snapshot.check()?;
        let violations: Vec<String> =
            checked.violations.iter().map(|violation| violation.to_string()).collect();
        let lost = checked.lost_copies.iter().map(|lost| format!("{lost} (its twin is whole)"));
        let lost: Vec<String> = lost.collect();
        let seen = [
            ("documents", checked.documents),
            ("bodies", checked.bodies),
            ("attachments", checked.attachments),
            ("nodes", checked.nodes),
        ];
        if out.is_json() {
            let found = violations.iter().map(|found| Json::from(found.as_str())).collect();
            let seen = seen.into_iter().map(|(name, count)| (name, number(count)));
            let rest = [
                ("commit", number(snapshot.number())),
                ("sound", Json::Bool(violations.is_empty())),
                ("violations", Json::Array(found)),
                (
                    "lost_copies",
                    Json::Array(lost.iter().map(|lost| Json::from(lost.as_str())).collect()),
                ),
            ];
            out.json(&object(seen.chain(rest)))?;
        } else {
            for lost in &lost {
                out.line(format_args!("{lost}"))?;
            }
            for found in &violations {
                let found = out.paint(Style::Bad, found);
                out.line(format_args!("{found}"))?;
            }
            let names = ["document", "revision", "attachment", "node"];
            let seen = names.iter().zip(seen).map(|(noun, (_, count))| counted(count, noun));
            let seen = seen.collect::<Vec<_>>().join(", ");
            let verdict = match violations.is_empty() {
                true => out.paint(Style::Good, "sound"),
                false => out.paint(Style::Bad, "damaged"),
            };
            let number = snapshot.number();
            out.line(format_args!("commit {number} is {verdict}: {seen}"))?;
        }
        if violations.is_empty() {
            return Ok(());
        }
        let count = counted(violations.len() as u64, "thing");
        Err(Failure::no(format!(
            "{count} wrong; restore a copy, or read an older commit with --commit"
        )))
    }
}
