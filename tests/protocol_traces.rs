//! The disk calls that the engine makes are those that the models in `spec/` allow.

use std::fs;
use std::path::{Path, PathBuf};

use rereduce_crash_sim::{
    Call, DATABASE, DatabaseTarget, Entry, KvTarget, Plan, StoreOpener, Target, Workload, record,
};
use rereduce_spec::acceptor::{self, Acceptor};
use rereduce_spec::commit::Protocol;

/// What the acceptor is told of `call`; reading, locking and the like mean nothing to it.
fn told(call: &Call, failed: bool) -> Option<acceptor::Call<'_>> {
    let database = Path::new(DATABASE);
    Some(match call {
        Call::Open { path, write: true } if **path == *database => acceptor::Call::Open,
        Call::Create { inode, .. } => acceptor::Call::Create { file: *inode },
        Call::Append { inode, offset, bytes, .. } => {
            acceptor::Call::Append { file: *inode, offset: *offset, bytes }
        }
        Call::Rewrite { inode, offset, length, .. } => {
            acceptor::Call::Rewrite { file: *inode, offset: *offset, length: *length }
        }
        Call::Sync { inode, .. } => acceptor::Call::Sync { file: *inode, failed },
        Call::Rename { .. } => acceptor::Call::Rename,
        Call::Remove { .. } => acceptor::Call::Remove,
        Call::SyncDir { .. } => acceptor::Call::SyncDir,
        Call::Open { .. }
        | Call::Lock { .. }
        | Call::Identify { .. }
        | Call::List { .. }
        | Call::Read { .. } => return None,
    })
}

/// Holds a trace against the models, and returns the acceptor at its end.
fn accept(protocol: Protocol, trace: &[Entry]) -> Result<Acceptor, String> {
    let mut acceptor = Acceptor::new(protocol);
    for (line, entry) in trace.iter().enumerate() {
        let call = match entry {
            Entry::Call(call, failure) => told(call, failure.is_some()),
            Entry::Acknowledged(_) => Some(acceptor::Call::Acknowledge),
            Entry::Began(_) => None,
        };
        let Some(call) = call else { continue };
        acceptor.accept(&call).map_err(|why| format!("line {line}, {entry}: {why}"))?;
    }
    Ok(acceptor)
}

#[test]
fn probe() {
    for kind in ["store", "db"] {
        let folder =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crash-sim/workloads").join(kind);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let workload = Workload::parse(&name, &fs::read_to_string(&path).unwrap()).unwrap();
            for (word, protocol) in [
                ("guide", Protocol::Guide),
                ("barrier", Protocol::Barrier),
                ("verified", Protocol::Verified),
            ] {
                let mut workload = workload.clone();
                workload.settings.retain(|(key, _)| key != "protocol");
                workload.settings.push(("protocol".into(), word.into()));
                let trace = if kind == "store" {
                    rec(&KvTarget(StoreOpener::default()), &workload)
                } else {
                    rec(&DatabaseTarget::default(), &workload)
                };
                match accept(protocol, &trace) {
                    Ok(a) => println!(
                        "{kind} {name} {word}: {} calls {} events {} acked",
                        a.calls,
                        a.events,
                        a.acknowledged()
                    ),
                    Err(e) => println!("{kind} {name} {word}: {e}"),
                }
            }
        }
    }
}
fn rec<T: Target>(target: &T, workload: &Workload) -> Vec<Entry> {
    let (target, ops) = workload.prepare(target).unwrap();
    record(&target, &ops, 1, &Plan::default()).unwrap().trace
}
