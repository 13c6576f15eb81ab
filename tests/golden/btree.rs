//! Scripts about the tree: batches, pictures, reductions, and how many nodes were read for them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;

use rereduce::btree::{Builder, CachedNodes, Labels, NodeCache, Shape, Tree, TreeOptions, diff};
use rereduce::file::MemoryChunks;
use rereduce::reduce::SumDecimal;
use rereduce::vocabulary::{Direction, Edit, KeyRange, KvOp};

use super::script::Layer;

/// A command of the tree's scripts. Values are numbers, and reductions are their sums.
enum Command {
    /// `fanout N`: entries that a node may have from now on.
    FanOut(usize),
    /// `apply KEY=VALUE KEY=-`: one batch.
    Apply(Vec<Edit>),
    /// `fill FIRST COUNT [desc]`: that many batches of one row each, keys of three digits.
    Fill(u64, u64, Direction),
    /// `build FIRST COUNT`: a fresh tree of that many rows, built bottom-up.
    Build(u64, u64),
    /// `draw`: the tree as text.
    Draw,
    /// `get KEY`: a value, and the nodes read.
    Get(Vec<u8>),
    /// `scan RANGE [desc] [limit N]`: rows, and the nodes read.
    Scan(KeyRange, Direction, usize),
    /// `reduce RANGE`: the sum, and the nodes read.
    Reduce(KeyRange),
    /// `groups LENGTH [desc] RANGE`: sums by the first bytes of the keys, and the nodes read.
    Groups(usize, Direction, KeyRange),
    /// `keep NAME`: remembers the tree under a name.
    Keep(String),
    /// `diff NAME`: what changed since then, and the nodes read.
    Diff(String),
    /// `check`: verifies the tree.
    Check,
}

fn op(line: &str) -> Result<KvOp, String> {
    line.parse().map_err(|error: rereduce::Error| error.to_string())
}

fn range(text: &str) -> Result<KeyRange, String> {
    match op(&format!("reduce {text}"))? {
        KvOp::Reduce { range } => Ok(range),
        _ => Err(format!("{text:?} is no range")),
    }
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Command, String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| -> Result<u64, String> {
            let word = words.get(at).ok_or("a number is missing")?;
            word.parse().map_err(|_| format!("{word:?} is no number"))
        };
        let direction = |at: usize| match words.get(at) {
            Some(&"desc") => Direction::Descending,
            _ => Direction::Ascending,
        };
        Ok(match verb {
            "fanout" => Command::FanOut(number(0)? as usize),
            "apply" => match op(&format!("commit {rest}"))? {
                KvOp::Commit(edits) => Command::Apply(edits),
                _ => return Err("edits such as a=1".to_string()),
            },
            "fill" => Command::Fill(number(0)?, number(1)?, direction(2)),
            "build" => Command::Build(number(0)?, number(1)?),
            "draw" => Command::Draw,
            "get" => Command::Get(rest.as_bytes().to_vec()),
            "scan" => match op(line)? {
                KvOp::Scan { range, direction, limit, .. } => {
                    Command::Scan(range, direction, limit.unwrap_or(u64::MAX) as usize)
                }
                _ => return Err("a range".to_string()),
            },
            "reduce" => Command::Reduce(range(rest)?),
            "groups" => {
                let direction = direction(1);
                let skipped = if direction == Direction::Descending { 2 } else { 1 };
                let of = range(&words.get(skipped..).unwrap_or_default().join(" "))?;
                Command::Groups(number(0)? as usize, direction, of)
            }
            "keep" => Command::Keep(rest.to_string()),
            "diff" => Command::Diff(rest.to_string()),
            "check" => Command::Check,
            _ => return Err("no command of the tree".to_string()),
        })
    }
}

struct Trees {
    chunks: MemoryChunks,
    cache: NodeCache,
    shape: Shape,
    tree: Tree,
    kept: BTreeMap<String, Tree>,
    reads_shown: RefCell<u64>,
}

pub(crate) fn layer() -> Box<dyn Layer> {
    let options = TreeOptions { fan_out_max: 3, ..TreeOptions::default() };
    Box::new(Trees {
        chunks: MemoryChunks::default(),
        // Nothing is cached, so that every node is counted each time.
        cache: NodeCache::new(0),
        shape: Shape { options, reducer: Arc::new(SumDecimal) },
        tree: Tree::empty(),
        kept: BTreeMap::new(),
        reads_shown: RefCell::new(0),
    })
}

impl Layer for Trees {
    fn run(&mut self, line: &str) -> Result<String, String> {
        let command = line.parse::<Command>().map_err(|wrong| format!("{line}: {wrong}"))?;
        self.command(command).map_err(|error| error.to_string())
    }
}

fn row(number: u64) -> (String, String) {
    (format!("{number:03}"), "1".to_string())
}

fn sum(reduction: &[u8]) -> String {
    SumDecimal::decode(reduction).map_or("nothing".to_string(), |sum| sum.to_string())
}

impl Trees {
    fn nodes(&self) -> CachedNodes<'_> {
        // What applying a batch read is not counted.
        *self.reads_shown.borrow_mut() = self.cache.reads();
        CachedNodes::new(&self.chunks, &self.cache)
    }

    fn read(&self) -> String {
        let count = self.cache.reads() - *self.reads_shown.borrow();
        let nodes = if count == 1 { "node" } else { "nodes" };
        format!("{count} {nodes} read")
    }

    fn apply(&mut self, edits: &[Edit]) -> rereduce::Result<()> {
        self.tree = self.tree.apply(&mut self.chunks, &self.cache, &self.shape, edits)?;
        Ok(())
    }

    fn command(&mut self, command: Command) -> rereduce::Result<String> {
        match command {
            Command::FanOut(count) => self.shape.options.fan_out_max = count,
            Command::Apply(edits) => self.apply(&edits)?,
            Command::Fill(first, count, direction) => {
                let mut numbers: Vec<u64> = (first..first + count).collect();
                if direction == Direction::Descending {
                    numbers.reverse();
                }
                for number in numbers {
                    let (key, value) = row(number);
                    self.apply(&[Edit::put(key, value)])?;
                }
            }
            Command::Build(first, count) => {
                let mut builder = Builder::new(&self.shape);
                for number in first..first + count {
                    let (key, value) = row(number);
                    builder.push(&mut self.chunks, key.as_bytes(), value.as_bytes())?;
                }
                self.tree = builder.finish(&mut self.chunks)?;
            }
            Command::Draw => {
                let labels = Labels { reduction: Box::new(sum), ..Labels::default() };
                return self.tree.draw(&self.nodes(), &labels);
            }
            Command::Get(key) => {
                let value = self.tree.get(&self.nodes(), &key)?;
                let value = value.map_or("nothing".into(), |value| text(&value));
                return Ok(format!("{value}, {}", self.read()));
            }
            Command::Scan(range, direction, limit) => {
                let mut rows = Vec::new();
                for row in self.tree.iter(&self.nodes(), range, direction).take(limit) {
                    let (key, value) = row?;
                    rows.push(format!("{}={}", text(&key), text(&value)));
                }
                return Ok(format!("{}, {}", rows.join(" "), self.read()));
            }
            Command::Reduce(range) => {
                let reduction = self.tree.reduce(&self.nodes(), &self.shape, &range)?;
                return Ok(format!("sum {}, {}", sum(&reduction), self.read()));
            }
            Command::Groups(length, direction, range) => {
                let mut lines = Vec::new();
                let cut = |key: &[u8]| length.min(key.len());
                let visit = &mut |group: &[u8], reduction: &[u8]| {
                    lines.push(format!("{} sum {}", text(group), sum(reduction)));
                    Ok(ControlFlow::Continue(()))
                };
                let nodes = self.nodes();
                self.tree.groups(&nodes, &self.shape, &range, direction, &cut, visit)?;
                lines.push(self.read());
                return Ok(lines.join("\n"));
            }
            Command::Keep(name) => {
                self.kept.insert(name, self.tree.clone());
            }
            Command::Diff(name) => {
                let mut lines = Vec::new();
                let show = |value: Option<&[u8]>| value.map_or("nothing".into(), text);
                let nodes = self.nodes();
                diff(&self.kept[&name], &self.tree, &nodes, &mut |key, old, new| {
                    lines.push(format!("{}: {} -> {}", text(key), show(old), show(new)));
                    Ok(ControlFlow::Continue(()))
                })?;
                lines.push(self.read());
                return Ok(lines.join("\n"));
            }
            Command::Check => {
                let checked = self.tree.check(&self.nodes(), &self.shape)?;
                return Ok(format!(
                    "{} rows in {} leaves and {} inner nodes, {} violations",
                    checked.rows,
                    checked.leaves,
                    checked.inner_nodes,
                    checked.violations.len()
                ));
            }
        }
        Ok(String::new())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
