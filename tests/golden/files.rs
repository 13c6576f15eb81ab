//! Scripts about the file and the store in it: a store on a simulated disk whose calls are shown.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use rereduce::btree::TreeOptions;
use rereduce::file::Protocol;
use rereduce::kv::KvSnapshot;
use rereduce::reduce::SumDecimal;
use rereduce::store::{Store, StoreOptions, StoreSnapshot};
use rereduce::vocabulary::{Direction, KvOp, Slot};
use rereduce_crash_sim::{Entry, Image, Plan, SimDisk, environment};

use super::script::Layer;

const DB: &str = "db";
const BLOCK: usize = 2048;

/// A command of the file's and the store's scripts.
enum Command {
    /// `protocol guide|barrier|verified`: what the next open uses; `verified` until then.
    Protocol(Protocol),
    /// `open`: opens the store, makes it if it is not there, and says what recovery decided.
    Open,
    /// `close`: closes cleanly, which seals the file.
    Close,
    /// `commit`, `get`, `scan`, `reduce`, `snapshot`, `history`, `release`, `compact`, `reopen`
    /// and `crash` as the model has them.
    Op(KvOp),
    /// `plan PLAN`: which disk calls fail from now on (`append 1 ENOSPC written=100`), `plan none`.
    Plan(Plan),
    /// `calls`: the disk calls since the last `calls` that could change something.
    Calls,
    /// `reads`: how many reads there were since the last `calls` or `reads`, and of how many bytes.
    Reads,
    /// `blocks`: what each block of the file is.
    Blocks,
    /// `tear a|b|both`: crashes, and the copies of the newest footer are damaged.
    Tear(Copies),
    /// `cut BYTES`: crashes, and the last bytes of the file are gone.
    Cut(usize),
    /// `rot BLOCK`: crashes, and one bit in the middle of this block is another.
    Rot(usize),
    /// `commits`: the history, newest first.
    Commits,
    /// `check`: verifies the tree.
    Check,
    /// `leftover`: puts a leftover of a compaction beside the file.
    Leftover,
    /// `names`: the files on the disk.
    Names,
}

/// Which copies of a footer.
#[derive(Clone, Copy)]
enum Copies {
    A,
    B,
    Both,
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Command, String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = || rest.parse().map_err(|_| format!("{rest:?} is no number"));
        Ok(match (verb, rest) {
            ("protocol", "guide") => Command::Protocol(Protocol::Guide),
            ("protocol", "barrier") => Command::Protocol(Protocol::Barrier),
            ("protocol", "verified") => Command::Protocol(Protocol::Verified),
            ("open", "") => Command::Open,
            ("close", "") => Command::Close,
            ("plan", "none") => Command::Plan(Plan::default()),
            ("plan", plan) => Command::Plan(plan.parse()?),
            ("calls", "") => Command::Calls,
            ("reads", "") => Command::Reads,
            ("blocks", "") => Command::Blocks,
            ("tear", "a") => Command::Tear(Copies::A),
            ("tear", "b") => Command::Tear(Copies::B),
            ("tear", "both") => Command::Tear(Copies::Both),
            ("cut", _) => Command::Cut(number()?),
            ("rot", _) => Command::Rot(number()?),
            ("commits", "") => Command::Commits,
            ("check", "") => Command::Check,
            ("leftover", "") => Command::Leftover,
            ("names", "") => Command::Names,
            _ => Command::Op(line.parse().map_err(|error: rereduce::Error| error.to_string())?),
        })
    }
}

struct Files {
    disk: SimDisk,
    store: Option<Store>,
    protocol: Protocol,
    slots: BTreeMap<Slot, StoreSnapshot>,
    /// Entries of the trace that were shown or counted.
    shown: usize,
    /// Makes each compacted file another one.
    seed: u64,
}

pub(crate) fn layer() -> Box<dyn Layer> {
    let (disk, slots) = (SimDisk::new(), BTreeMap::new());
    let protocol = Protocol::default();
    Box::new(Files { disk, store: None, protocol, slots, shown: 0, seed: 1 })
}

type Answer = rereduce::Result<String>;

impl Layer for Files {
    fn run(&mut self, line: &str) -> Result<String, String> {
        let command = line.parse::<Command>().map_err(|wrong| format!("{line}: {wrong}"))?;
        self.command(command).map_err(|error| error.to_string())
    }
}

impl Files {
    fn command(&mut self, command: Command) -> Answer {
        match command {
            Command::Protocol(protocol) => self.protocol = protocol,
            Command::Open => return self.open(),
            Command::Close => {
                self.store().close()?;
                self.drop_store();
            }
            Command::Op(op) => return self.op(op),
            Command::Plan(plan) => self.disk.set_plan(plan),
            Command::Calls => return Ok(self.calls()),
            Command::Reads => return Ok(self.reads()),
            Command::Blocks => return Ok(self.blocks()),
            Command::Tear(copies) => self.tear(copies),
            Command::Cut(count) => self.crash_into(|bytes| bytes.truncate(bytes.len() - count)),
            Command::Rot(block) => self.crash_into(|bytes| bytes[block * BLOCK + BLOCK / 2] ^= 1),
            Command::Commits => return self.commits(),
            Command::Check => {
                let checked = self.store().snapshot()?.check()?;
                let found = checked.violations.len();
                return Ok(format!("{} rows, {found} violations", checked.rows));
            }
            Command::Leftover => {
                let env = environment(&self.disk, 99);
                env.disk.create(Path::new("db.rereduce.compact"))?.append(b"half a compaction")?;
            }
            Command::Names => {
                let names = self.disk.names();
                let names: Vec<String> =
                    names.iter().map(|name| name.display().to_string()).collect();
                return Ok(names.join(" "));
            }
        }
        Ok(String::new())
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("a script opens the store first")
    }

    fn drop_store(&mut self) {
        self.slots.clear();
        self.store = None;
    }

    fn open(&mut self) -> Answer {
        let tree = TreeOptions { fan_out_max: 4, ..TreeOptions::default() };
        let options = StoreOptions {
            tree,
            protocol: self.protocol,
            reducer: Arc::new(SumDecimal),
            cache_bytes: 0,
            ..StoreOptions::default()
        };
        self.seed += 1;
        let store = Store::open(environment(&self.disk, self.seed), Path::new(DB), options)?;
        let report = store.recovery();
        self.store = Some(store);
        let sealed = if report.sealed { ", sealed" } else { "" };
        let mut answer = format!("at commit {}{sealed}", report.number);
        if report.tail_bytes > 0 {
            answer += &format!(", {} bytes of no commit behind it", report.tail_bytes);
        }
        for skipped in &report.skipped {
            answer += &format!("\npassed over: {skipped}");
        }
        Ok(answer)
    }

    fn op(&mut self, op: KvOp) -> Answer {
        let at = |slot: Option<Slot>| match slot {
            Some(slot) => Ok(self.slots[&slot].clone()),
            None => self.store().snapshot(),
        };
        match op {
            KvOp::Commit(edits) => Ok(format!("commit {}", self.store().commit(edits)?)),
            KvOp::Get { key, at: slot } => {
                let value = at(slot)?.get(&key)?;
                Ok(value.map_or("nothing".to_string(), |value| text(&value)))
            }
            KvOp::Scan { range, direction, limit, at: slot } => {
                let mut rows = Vec::new();
                let limit = limit.unwrap_or(u64::MAX) as usize;
                KvSnapshot::scan(&at(slot)?, &range, direction, &mut |key, value| {
                    rows.push(format!("{}={}", text(key), text(value)));
                    if rows.len() < limit {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })?;
                Ok(if rows.is_empty() { "nothing".to_string() } else { rows.join(" ") })
            }
            KvOp::Reduce { range } => {
                let reduction = self.store().snapshot()?.reduce(&range)?;
                Ok(format!("sum {}", SumDecimal::decode(&reduction).unwrap_or_default()))
            }
            KvOp::Snapshot(slot) => {
                let snapshot = self.store().snapshot()?;
                self.slots.insert(slot, snapshot);
                Ok(String::new())
            }
            KvOp::History { slot, back } => {
                let newest = self.store().snapshot()?.number();
                let snapshot = self.store().snapshot_at(newest.saturating_sub(back))?;
                let answer = format!("commit {}", snapshot.number());
                self.slots.insert(slot, snapshot);
                Ok(answer)
            }
            KvOp::Release(slot) => {
                self.slots.remove(&slot);
                Ok(String::new())
            }
            KvOp::Compact => {
                let size = |disk: &SimDisk| disk.bytes(Path::new(DB)).map_or(0, |b| b.len());
                let before = size(&self.disk);
                self.store().compact(&mut || ControlFlow::Continue(()))?;
                Ok(format!("{before} bytes before, {} after", size(&self.disk)))
            }
            KvOp::Reopen => {
                self.store().close()?;
                self.drop_store();
                self.open()
            }
            KvOp::Crash => {
                self.drop_store();
                self.open()
            }
            KvOp::Fault { .. } => unreachable!("these scripts say `plan`"),
        }
    }

    fn calls(&mut self) -> String {
        let trace = self.disk.trace();
        let changing = trace[self.shown..].iter().filter(|entry| match entry {
            Entry::Call(call, _) => call.changes_the_disk(),
            _ => false,
        });
        let lines: Vec<String> = changing.map(|entry| entry.to_string()).collect();
        self.shown = trace.len();
        if lines.is_empty() { "nothing".to_string() } else { lines.join("\n") }
    }

    fn reads(&mut self) -> String {
        let trace = self.disk.trace();
        let lengths: Vec<u64> = trace[self.shown..]
            .iter()
            .filter_map(|entry| match entry {
                Entry::Call(rereduce_crash_sim::Call::Read { length, .. }, _) => Some(*length),
                _ => None,
            })
            .collect();
        self.shown = trace.len();
        format!("{} reads, {} bytes", lengths.len(), lengths.iter().sum::<u64>())
    }

    /// Footers by their marker, their number and whether they seal; what is behind is data.
    fn blocks(&self) -> String {
        let bytes = self.disk.bytes(Path::new(DB)).unwrap_or_default();
        let block = |(index, block): (usize, &[u8])| {
            let what = match (index, block[0]) {
                (0, _) => "header".to_string(),
                (_, 0xa5) if block.len() == BLOCK => {
                    let number = u64::from_le_bytes(block[32..40].try_into().unwrap());
                    let seal = if block[65] == 0 { "footer" } else { "seal" };
                    let copy = if index % 2 == 1 { "A" } else { "B" };
                    format!("{seal} of commit {number}, copy {copy}")
                }
                _ if block[1..].iter().all(|byte| *byte == 0) => "padding".to_string(),
                _ => "data".to_string(),
            };
            format!("{index} {what}")
        };
        bytes.chunks(BLOCK).enumerate().map(block).collect::<Vec<_>>().join("\n")
    }

    /// Kills the process and changes the bytes that it left.
    fn crash_into(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        self.drop_store();
        let mut bytes = self.disk.bytes(Path::new(DB)).expect("there is a file");
        change(&mut bytes);
        self.disk = SimDisk::recording(&Image::of_files([(DB, bytes.as_slice())]));
        self.shown = 0;
    }

    fn tear(&mut self, copies: Copies) {
        self.crash_into(|bytes| {
            let is_footer = |block: &usize| bytes[block * BLOCK] == 0xa5;
            let last = (1..bytes.len() / BLOCK).rev().find(is_footer).expect("a footer");
            let torn = match copies {
                Copies::A => vec![last - 1],
                Copies::B => vec![last],
                Copies::Both => vec![last - 1, last],
            };
            torn.into_iter().for_each(|block| bytes[block * BLOCK + 100..][..100].fill(0xee));
        });
    }

    fn commits(&self) -> Answer {
        let mut lines = Vec::new();
        let mut next = Some(self.store().snapshot()?);
        while let Some(snapshot) = next {
            let Some(id) = snapshot.id() else { break };
            let mut rows = Vec::new();
            snapshot.scan(
                &rereduce::vocabulary::KeyRange::all(),
                Direction::Ascending,
                &mut |key, value| {
                    rows.push(format!("{}={}", text(key), text(value)));
                    ControlFlow::Continue(())
                },
            )?;
            lines.push(format!("commit {} at byte {}: {}", id.number, id.offset, rows.join(" ")));
            next = snapshot.parent()?;
        }
        Ok(if lines.is_empty() { "none".to_string() } else { lines.join("\n") })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
