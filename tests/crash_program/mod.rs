//! Tiny programs on a raw disk, in text, and what a crash leaves of them.
//!
//! ```text
//! one; / append a 2*600; sync a!; ack
//! ```
//!
//! A call names its file; `append` adds a text so many times, `rewrite` writes a file's bytes once
//! more, `copy a b` reads one file and makes another of what was read. A program goes on when a
//! call fails, unless a `!` stands behind it. `ack` is the moment from which the program has
//! promised something. `one`, `two` and `block` make files that are on the disk for sure. From `/`
//! on power can fail at any call, and the plan counts; `crash` lets it fail there, and the program
//! goes on from each outcome.
//!
//! An outcome names the files with their bytes; `.` is a zero byte, and a run is shown by its byte
//! and length (`x*512`).

use std::path::Path;

use rereduce::Result;
use rereduce::env::{Access, Disk, DiskFile};
use rereduce_crash_sim::Image;

/// What programs may begin with: `a` holds 1; `a` holds 1 and `b` holds 2; `a` holds a sector.
const BEGINNINGS: [(&str, &str); 3] = [
    ("one", "create a; append a 1; sync a; sync_dir a"),
    ("two", "create a; append a 1; sync a; create b; append b 2; sync b; sync_dir a"),
    ("block", "create a; append a o*512; sync a; sync_dir a"),
];

/// The calls of a program, beginnings written out.
pub(crate) fn calls(program: &str) -> Vec<&str> {
    let written_out = program.split(';').map(str::trim).flat_map(|call| {
        let beginning = BEGINNINGS.iter().find(|(name, _)| *name == call);
        beginning.map_or(call, |(_, calls)| *calls).split(';').map(str::trim)
    });
    let parts = written_out.flat_map(|call| match call.strip_prefix("/ ") {
        Some(call) => vec!["/", call],
        None => vec![call],
    });
    parts.filter(|call| !call.is_empty()).collect()
}

/// Runs a program without `/`, `crash` and `ack`; returns what went wrong, call by call.
pub(crate) fn run(disk: &dyn Disk, program: &str) -> Vec<String> {
    let failed = calls(program).into_iter().filter_map(|call| perform(disk, call).err());
    failed.map(|error| error.to_string()).collect()
}

/// Makes one call, `!` or not.
pub(crate) fn perform(disk: &dyn Disk, call: &str) -> Result<()> {
    let words: Vec<&str> = call.trim_end_matches('!').split_whitespace().collect();
    let path = Path::new(words[1]);
    let open = || disk.open(path, Access::Write);
    match words[0] {
        "create" => disk.create(path).map(drop),
        "append" => {
            let (bytes, count) = words[2].split_once('*').unwrap_or((words[2], "1"));
            open()?.append(bytes.repeat(count.parse().unwrap()).as_bytes()).map(drop)
        }
        "sync" => open()?.sync(),
        "rewrite" => {
            let file = open()?;
            let bytes = read(&*file)?;
            file.rewrite_same(0, &bytes)
        }
        "copy" => {
            let bytes = match read(&*open()?) {
                Err(error) if call.ends_with('!') => return Err(error),
                read => read.unwrap_or_default(),
            };
            disk.create(Path::new(words[2]))?.append(&bytes).map(drop)
        }
        "rename" => disk.rename(path, Path::new(words[2])),
        "remove" => disk.remove(path),
        "sync_dir" => disk.sync_dir(path),
        other => panic!("unknown call {other}"),
    }
}

fn read(file: &dyn DiskFile) -> Result<Vec<u8>> {
    let mut bytes = vec![0; file.size()? as usize];
    let count = file.read_at(0, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// An image as an outcome.
pub(crate) fn show(image: &Image) -> String {
    let files = image.names().into_iter().map(|path| {
        let bytes = image.bytes(&path).unwrap();
        let runs = bytes.chunk_by(|a, b| a == b).map(|run| {
            let shown = if run[0] == 0 { '.' } else { run[0] as char };
            if run.len() == 1 { shown.to_string() } else { format!("{shown}*{}", run.len()) }
        });
        format!("{}={}", path.display(), runs.collect::<String>())
    });
    format!("{{{}}}", files.collect::<Vec<_>>().join(" "))
}
