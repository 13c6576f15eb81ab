//! `inspect`: how a file is laid out, as text.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use rereduce::db::{ChunkKind, Database, DatabaseOptions, DbSnapshot};
use rereduce::env::{Access, Env};
use rereduce::file::{BLOCK_BYTES, FileMap, FooterSeen, OpenFile};
use rereduce::vocabulary::Json;

use crate::outcome::{Failure, Outcome};
use crate::output::{Output, Style, counted, grouped, number, object};

/// Show what lies in the file: header, footers, blocks, chunks, and the tree of documents
///
/// Works on damaged files too: what is whole is shown, what is not is named.
#[derive(clap::Args)]
pub(crate) struct Inspect {
    /// The database file
    db: PathBuf,
    /// Show the newest so many footers
    #[arg(long, value_name = "N", default_value = "12")]
    footers: usize,
    /// Draw the tree of documents even if it is large
    #[arg(long)]
    tree: bool,
    /// List every chunk that the commit uses
    #[arg(long)]
    chunks: bool,
    /// Show tree and chunks of this commit instead of the newest
    #[arg(long, value_name = "N")]
    commit: Option<u64>,
}

/// Trees and chunks of more documents are shown on request only.
const SHOWN_DOCS_MAX: u64 = 200;

impl Inspect {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let file = OpenFile::open(&Env::real(), &self.db, Access::Read)?;
        let map = FileMap::read(&file)?;
        if out.is_json() {
            return out.json(&as_json(&file, &map));
        }
        let header = file.header();
        heading(out, "header")?;
        out.pairs([
            ("byte 0", format!("format version {}, file {}", header.version, header.file)),
            ("", format!("database {}", header.database)),
        ])?;
        heading(out, "footers")?;
        self.print_footers(&map, out)?;
        heading(out, "blocks")?;
        print_blocks(&map, out)?;
        // The newest footer that counts may belong to an older commit than the damage does.
        let newest = map.footers.iter().filter(|footer| footer.in_history && footer.cover_whole);
        let newest = newest.map(|footer| footer.number).max();
        let Some(number) = self.commit.or(newest) else {
            return out.line(format_args!("no commit yet"));
        };
        let options = DatabaseOptions::default();
        let snapshot = Database::open_commit(&Env::real(), &self.db, number, &options)?;
        let info = snapshot.info();
        let documents = info.doc_count + info.doc_del_count;
        let many = documents > SHOWN_DOCS_MAX;
        let documents = counted(documents, "document");
        heading(out, "chunks in use")?;
        let chunks = match many && !self.chunks {
            true => out.line(format_args!("of {documents}: --chunks")),
            false => self.print_chunks(&snapshot, out),
        };
        let chunks = name_damage(chunks, out)?;
        heading(out, "documents, by id")?;
        let tree = match many && !self.tree {
            true => out.line(format_args!("{documents}: --tree")),
            false => print_tree(&snapshot, out),
        };
        let tree = name_damage(tree, out)?;
        chunks.or(tree).map_or(Ok(()), Err)
    }

    /// In the order of the file; without --chunks a line a kind.
    fn print_chunks(&self, snapshot: &DbSnapshot, out: &mut Output) -> Outcome {
        let mut chunks: BTreeMap<u64, (usize, ChunkKind, String)> = BTreeMap::new();
        snapshot.chunks(&mut |chunk| {
            let entry = (chunk.pointer.length(), chunk.kind, chunk.owner);
            chunks.insert(chunk.pointer.offset(), entry);
            ControlFlow::Continue(())
        })?;
        if self.chunks {
            let row = |(offset, (length, kind, owner)): (u64, (usize, ChunkKind, String))| {
                vec![offset.to_string(), length.to_string(), kind.to_string(), owner]
            };
            let rows: Vec<_> = chunks.into_iter().map(row).collect();
            return out.table(&["byte", "bytes", "kind", "document"], &rows);
        }
        let mut kinds: BTreeMap<ChunkKind, (u64, u64)> = BTreeMap::new();
        for (length, kind, _) in chunks.into_values() {
            let (count, bytes) = kinds.entry(kind).or_default();
            (*count, *bytes) = (*count + 1, *bytes + length as u64);
        }
        let row = |(kind, (count, bytes)): (ChunkKind, (u64, u64))| {
            vec![kind.to_string(), grouped(count), grouped(bytes)]
        };
        let rows: Vec<_> = kinds.into_iter().map(row).collect();
        out.table(&["kind", "chunks", "bytes"], &rows)
    }

    fn print_footers(&self, map: &FileMap, out: &mut Output) -> Outcome {
        let skipped = map.footers.len().saturating_sub(self.footers);
        if skipped > 0 {
            out.line(format_args!("({skipped} older ones: --footers {})", map.footers.len()))?;
        }
        let copy = |whole: bool| if whole { "whole" } else { "torn" };
        let row = |footer: &FooterSeen| {
            let cover = footer.offset - footer.cover_from;
            let notes = match (footer.cover_whole, footer.in_history) {
                (false, _) => "cover damaged",
                (true, false) => "not in the history",
                (true, true) => "",
            };
            vec![
                footer.offset.to_string(),
                footer.number.to_string(),
                if footer.seal { "seal" } else { "commit" }.to_string(),
                format!("{:?}", footer.protocol).to_lowercase(),
                cover.to_string(),
                footer.flushed.to_string(),
                copy(footer.copies[0]).to_string(),
                copy(footer.copies[1]).to_string(),
                notes.to_string(),
            ]
        };
        let rows: Vec<_> = map.footers.iter().skip(skipped).map(row).collect();
        let headings =
            ["byte", "commit", "kind", "protocol", "covers", "flushed", "copy A", "copy B", ""];
        out.table(&headings, &rows)?;
        for offset in &map.torn {
            let torn = out.paint(Style::Bad, format_args!("{offset}  torn or damaged footer"));
            out.line(format_args!("{torn}"))?;
        }
        Ok(())
    }
}

fn print_tree(snapshot: &DbSnapshot, out: &mut Output) -> Outcome {
    out.text(&snapshot.draw()?)
}

/// Damage is shown where it is, and does not keep the rest from being shown.
fn name_damage(shown: Outcome, out: &mut Output) -> Outcome<Option<Failure>> {
    match shown {
        Ok(()) => Ok(None),
        Err(Failure::Said { code: 4, message }) => {
            let line = out.paint(Style::Bad, &message);
            out.line(format_args!("{line}"))?;
            Ok(Some(Failure::Said { code: 4, message }))
        }
        Err(failure) => Err(failure),
    }
}

fn heading(out: &mut Output, text: &str) -> Outcome {
    let text = out.paint(Style::Heading, text);
    out.line(format_args!("{text}"))
}

fn print_blocks(map: &FileMap, out: &mut Output) -> Outcome {
    let whole = map.footers.iter().flat_map(|footer| footer.copies).filter(|whole| *whole);
    let footers = whole.count() as u64;
    let rest = map.file_bytes % BLOCK_BYTES;
    out.line(format_args!(
        "{} bytes: {} of data, {} in footers, {}",
        grouped(map.file_bytes),
        counted(map.data_blocks, "block"),
        grouped(footers),
        if rest == 0 { "no torn end".to_string() } else { format!("{rest} bytes of a torn block") },
    ))
}

fn as_json(file: &OpenFile, map: &FileMap) -> Json {
    let header = file.header();
    let footer = |footer: &FooterSeen| {
        object([
            ("offset", number(footer.offset)),
            ("commit", number(footer.number)),
            ("seal", Json::Bool(footer.seal)),
            ("protocol", Json::String(format!("{:?}", footer.protocol).to_lowercase())),
            ("cover_from", number(footer.cover_from)),
            ("flushed", number(footer.flushed)),
            ("copies", Json::Array(footer.copies.map(Json::Bool).to_vec())),
            ("cover_whole", Json::Bool(footer.cover_whole)),
            ("in_history", Json::Bool(footer.in_history)),
        ])
    };
    object([
        ("format_version", number(u64::from(header.version))),
        ("file_id", Json::String(header.file.to_string())),
        ("db_id", Json::String(header.database.to_string())),
        ("file_bytes", number(map.file_bytes)),
        ("data_blocks", number(map.data_blocks)),
        ("footers", Json::Array(map.footers.iter().map(footer).collect())),
        ("torn", Json::Array(map.torn.iter().map(|offset| number(*offset)).collect())),
    ])
}
