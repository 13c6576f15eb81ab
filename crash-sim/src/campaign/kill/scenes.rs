//! Full disks and disks that cannot be written, as real as the machine allows.
//!
//! Invariant: a scene that the machine does not allow is named and counts as nothing.

use std::process::Command;

use super::log::SentLog;
use super::process::Desk;

/// How a scene went.
pub(super) enum Staged {
    Passed,
    /// What the machine does not allow.
    LeftOut(&'static str),
}

/// A scene by name.
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) play: fn(&Desk, u64) -> Result<Staged, String>,
}

pub(super) const SCENES: [Scene; 8] = [
    Scene {
        name: "a load beyond a small limit of file size",
        play: |desk, seed| limit(desk, seed, 40),
    },
    Scene { name: "a load beyond a larger limit", play: |desk, seed| limit(desk, seed, 300) },
    Scene {
        name: "a load without room for the first commit",
        play: |desk, seed| limit(desk, seed, 1),
    },
    Scene { name: "a limit whose signal kills", play: deadly_limit },
    Scene { name: "a compaction beyond the limit", play: limited_compaction },
    Scene { name: "a full file system", play: full_file_system },
    Scene { name: "a file without write permission", play: read_only_file },
    Scene { name: "a file system mounted read-only", play: read_only_mount },
];

/// Documents in a batch of these loads.
const SIZE: usize = 5;

/// Batches enough to fill whatever is limited here.
const PLENTY: usize = 600;

const LOAD: &str = "load db - --format ndjson --batch 5 --acknowledge --json";

/// A small database with a few documents, closed cleanly.
fn prepare(desk: &Desk, log: &mut SentLog) -> Result<(), String> {
    let ran = desk.feed(&mut desk.program(LOAD), log, (SIZE, 20), |_, _| ())?;
    ran.done()?;
    desk.judge("db", log).map(drop)
}

/// The process may write no file beyond so many blocks: the error that a full disk gives, too.
fn limit(desk: &Desk, seed: u64, blocks: u32) -> Result<Staged, String> {
    let mut log = SentLog::new(seed);
    let mut command = desk.shell(&format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""));
    command.args(LOAD.split(' '));
    let ran = desk.feed(&mut command, &mut log, (SIZE, PLENTY), |_, _| ())?;
    ran.refused(3)?;
    desk.judge("db", &mut log)?;
    // With room again, it goes on where it was.
    prepare(desk, &mut log)?;
    Ok(Staged::Passed)
}

/// Where nobody ignores the signal, the limit is a kill in the middle of a write.
fn deadly_limit(desk: &Desk, seed: u64) -> Result<Staged, String> {
    let mut log = SentLog::new(seed);
    let mut command = desk.shell("ulimit -c 0; ulimit -f 200; exec \"$0\" \"$@\"");
    command.args(LOAD.split(' '));
    let ran = desk.feed(&mut command, &mut log, (SIZE, PLENTY), |_, _| ())?;
    if ran.status.success() {
        return Err("a load beyond the limit came to its end".to_owned());
    }
    desk.judge("db", &mut log)?;
    prepare(desk, &mut log)?;
    Ok(Staged::Passed)
}

fn limited_compaction(desk: &Desk, seed: u64) -> Result<Staged, String> {
    let mut log = SentLog::new(seed);
    prepare(desk, &mut log)?;
    let command = desk.shell("trap '' XFSZ; ulimit -f 20; exec \"$0\" compact db");
    desk.run(command)?.refused(3)?;
    desk.judge("db", &mut log)?;
    desk.run(desk.program("compact db"))?.done()?;
    desk.judge("db", &mut log)?;
    prepare(desk, &mut log)?;
    Ok(Staged::Passed)
}

/// Exit codes of the scripts below that say more than the program does.
const NOT_ALLOWED: i32 = 99;
const UNSOUND: i32 = 98;

/// A shell in mount namespaces of its own, whose mounts end with it; `None` where the system does
/// not let us.
fn mounting_shell(desk: &Desk, script: &str) -> Option<Command> {
    for flags in ["-m", "-rm"] {
        let unshare = |script: &str| {
            let mut command = desk.shell("exec unshare \"$@\"");
            command.args([flags, "sh", "-c", script]).arg(&desk.program);
            command
        };
        let probe = "mkdir -p probe && mount -t tmpfs -o size=64k none probe";
        if desk.run(unshare(probe)).is_ok_and(|ran| ran.status.success()) {
            return Some(unshare(script));
        }
    }
    None
}

fn full_file_system(desk: &Desk, seed: u64) -> Result<Staged, String> {
    let script = "mkdir -p full && mount -t tmpfs -o size=600k none full || exit 99
        \"$0\" load full/db - --format ndjson --batch 5 --acknowledge --json; code=$?
        \"$0\" check full/db >check.txt 2>&1 || exit 98
        cp full/db db; exit $code";
    let Some(mut command) = mounting_shell(desk, script) else {
        return Ok(Staged::LeftOut("mounting a tmpfs is not allowed here"));
    };
    let mut log = SentLog::new(seed);
    let ran = desk.feed(&mut command, &mut log, (SIZE, PLENTY), |_, _| ())?;
    match ran.status.code() {
        Some(NOT_ALLOWED) => return Ok(Staged::LeftOut("mounting a tmpfs is not allowed here")),
        Some(UNSOUND) => return Err("on the full disk, check does not pass".to_owned()),
        _ => ran.refused(3)?,
    }
    desk.judge("db", &mut log)?;
    prepare(desk, &mut log)?;
    Ok(Staged::Passed)
}

fn read_only_file(desk: &Desk, seed: u64) -> Result<Staged, String> {
    let mut log = SentLog::new(seed);
    prepare(desk, &mut log)?;
    let before = std::fs::read(desk.path("db")).map_err(|error| error.to_string())?;
    // The superuser writes to every file, unless it gives that power away first.
    let powerless = "setpriv --bounding-set=-dac_override,-dac_read_search \
                     --inh-caps=-dac_override,-dac_read_search";
    let tries = [
        "chmod 444 db; if (: >>db) 2>&-; then exit 99; fi; exec \"$0\" put db x {}".to_owned(),
        format!(
            "chmod 444 db; if {powerless} sh -c ': >>db' 2>&-; then exit 99; fi; \
                 {powerless} true 2>&- || exit 99; exec {powerless} \"$0\" put db x {{}}"
        ),
    ];
    for script in tries {
        let ran = desk.run(desk.shell(&script))?;
        if ran.status.code() == Some(NOT_ALLOWED) {
            continue;
        }
        ran.refused(3)?;
        desk.judge("db", &mut log)?;
        if std::fs::read(desk.path("db")).map_err(|error| error.to_string())? != before {
            return Err("a file without write permission has changed".to_owned());
        }
        return Ok(Staged::Passed);
    }
    Ok(Staged::LeftOut("this user may write to every file"))
}

fn read_only_mount(desk: &Desk, seed: u64) -> Result<Staged, String> {
    let script = "mkdir -p fixed && mv db fixed && mount --bind fixed fixed &&
        mount -o remount,ro,bind fixed || exit 99
        \"$0\" put fixed/db x '{}'; code=$?
        \"$0\" compact fixed/db 2>compact.txt && exit 98
        \"$0\" check fixed/db >check.txt 2>&1 || exit 98
        exit $code";
    let Some(command) = mounting_shell(desk, script) else {
        return Ok(Staged::LeftOut("mounting is not allowed here"));
    };
    let mut log = SentLog::new(seed);
    prepare(desk, &mut log)?;
    let ran = desk.run(command)?;
    match ran.status.code() {
        Some(NOT_ALLOWED) => return Ok(Staged::LeftOut("mounting read-only is not allowed here")),
        Some(UNSOUND) => {
            return Err("on a read-only mount, reading fails or compacting does not".to_owned());
        }
        _ => ran.refused(3)?,
    }
    desk.judge("fixed/db", &mut log)?;
    Ok(Staged::Passed)
}
