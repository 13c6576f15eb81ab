//! `info`: what a database says about itself.

use rereduce::env::{Access, Env};
use rereduce::file::OpenFile;
use rereduce::vocabulary::Json;

use crate::opening::Source;
use crate::outcome::Outcome;
use crate::output::{Output, grouped, number, object};

/// Show counts, sizes and identity
#[derive(clap::Args)]
pub(crate) struct Info {
    #[command(flatten)]
    source: Source,
}

impl Info {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let snapshot = self.source.snapshot()?;
        let info = snapshot.info();
        let witnessed = snapshot.id().is_none() || snapshot.is_witnessed()?;
        let header = OpenFile::open(&Env::real(), &self.source.db, Access::Read)?.header();
        let counts = [
            ("doc_count", info.doc_count),
            ("doc_del_count", info.doc_del_count),
            ("update_seq", info.update_seq),
            ("purge_seq", info.purge_seq),
            ("commit", info.commit),
            ("oldest_commit", info.oldest_commit),
            ("file_bytes", info.file_bytes),
            ("active_bytes", info.active_bytes),
            ("external_bytes", info.external_bytes),
            ("revs_limit", u64::from(info.revs_limit)),
            ("purge_infos_limit", info.purge_infos_limit),
            ("format_version", u64::from(header.version)),
        ];
        let names = [("file_id", header.file.to_string()), ("db_id", header.database.to_string())];
        if out.is_json() {
            let counts = counts.into_iter().map(|(name, count)| (name, number(count)));
            let names = names.iter().map(|(name, id)| (*name, Json::from(id.as_str())));
            let witnessed = [("witnessed", Json::Bool(witnessed))];
            return out.json(&object(counts.chain(names).chain(witnessed)));
        }
        let counts = counts.into_iter().map(|(name, count)| (name, grouped(count)));
        let witnessed = [("witnessed", if witnessed { "yes" } else { "not yet" }.to_string())];
        out.pairs(counts.chain(names).chain(witnessed))
    }
}
