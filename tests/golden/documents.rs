//! Scripts about documents: revision trees drawn, revision ids, JSON and attachments.

use std::str::FromStr;

use rereduce::codec::Reader;
use rereduce::doc::{
    Attachment, AttachmentEncoder, EditParent, MergeKind, OpenRev, RevData, RevTree, revision_id,
};
use rereduce::vocabulary::{Json, Rev, RevPath};

use super::draw::draw_leaves;
use super::script::Layer;

/// A command of the documents' scripts. A path is written `3-c b a`, the newest first; a revision
/// whose id begins with `x` is a deletion.
enum Command {
    /// `merge PATH`: a replicated revision with its ancestors.
    Merge(RevPath),
    /// `stem N`: forgets what is further than N revisions from every leaf.
    Stem(u32),
    /// `purge REV...`: removes leaves.
    Purge(Vec<Rev>),
    /// `draw`: the tree as text; `*` is the winner, `-` a deletion.
    Draw,
    /// `conflicts`: the leaves that lost.
    Conflicts,
    /// `open REV...`, `latest REV...`: what is found of these revisions.
    Open(Vec<Rev>, bool),
    /// `path REV`: the revision and its known ancestors.
    Path(Rev),
    /// `info REV`: what is there of each revision on its path.
    Info(Rev),
    /// `missing REV...`: what a replicator should send, and what it may build on.
    Missing(Vec<Rev>),
    /// `edit [REV]`, `delete [REV]`: what an edit that names this base would build on.
    Edit(Option<Rev>, bool),
    /// `forget`: begins with an empty tree.
    Forget,
    /// `id PARENT JSON`: the revision id of an edit; the parent `-` is none.
    Id(Option<Rev>, Json),
    /// `show JSON`: the text with which CouchDB would answer it.
    Show(String),
    /// `attach NAME TYPE TEXT`: the record of an attachment.
    Attach(String, String, String),
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Command, String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let fail = |error: rereduce::Error| error.to_string();
        let rev = |text: &str| text.parse::<Rev>().map_err(fail);
        let revs = || rest.split(' ').map(rev).collect::<Result<Vec<Rev>, String>>();
        let base = || if rest.is_empty() { Ok(None) } else { rev(rest).map(Some) };
        let json = |text: &str| Json::parse(text.as_bytes()).map_err(fail);
        Ok(match verb {
            "merge" => Command::Merge(path(rest)?),
            "stem" => Command::Stem(rest.parse().map_err(|_| "stem N".to_string())?),
            "purge" => Command::Purge(revs()?),
            "draw" => Command::Draw,
            "conflicts" => Command::Conflicts,
            "open" => Command::Open(revs()?, false),
            "latest" => Command::Open(revs()?, true),
            "path" => Command::Path(rev(rest)?),
            "info" => Command::Info(rev(rest)?),
            "missing" => Command::Missing(revs()?),
            "edit" => Command::Edit(base()?, false),
            "delete" => Command::Edit(base()?, true),
            "forget" => Command::Forget,
            "show" => Command::Show(rest.to_string()),
            "id" => {
                let (parent, body) = rest.split_once(' ').ok_or("id PARENT JSON")?;
                let parent = if parent == "-" { None } else { Some(rev(parent)?) };
                Command::Id(parent, json(body)?)
            }
            "attach" => match rest.splitn(3, ' ').collect::<Vec<_>>()[..] {
                [name, media, text] => Command::Attach(name.into(), media.into(), text.into()),
                _ => return Err("attach NAME TYPE TEXT".to_string()),
            },
            _ => return Err("no command of documents".to_string()),
        })
    }
}

/// The path `3-c b a`.
pub(crate) fn path(text: &str) -> Result<RevPath, String> {
    let mut words = text.split(' ');
    let fail = |error: rereduce::Error| error.to_string();
    let newest: Rev = words.next().unwrap_or_default().parse().map_err(fail)?;
    let mut ids = vec![newest.id];
    for word in words {
        ids.push(word.parse().map_err(fail)?);
    }
    Ok(RevPath { start: newest.generation, ids })
}

/// Whether a revision of these scripts is a deletion.
pub(crate) fn is_deletion(rev: &Rev) -> bool {
    rev.id.as_bytes().first() == Some(&b'x')
}

/// What the tree knows of a body: whether it is a deletion.
#[derive(Clone, PartialEq)]
struct Body(bool);

impl RevData for Body {
    fn is_deleted(&self) -> bool {
        self.0
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.0));
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Body> {
        Some(Body(reader.u8()? == 1))
    }
}

#[derive(Default)]
struct Documents {
    tree: RevTree<Body>,
}

pub(crate) fn layer() -> Box<dyn Layer> {
    Box::new(Documents::default())
}

impl Layer for Documents {
    fn run(&mut self, line: &str) -> Result<String, String> {
        let command = line.parse::<Command>().map_err(|wrong| format!("{line}: {wrong}"))?;
        self.command(command).map_err(|error| error.to_string())
    }
}

fn list<'a>(revs: impl IntoIterator<Item = &'a Rev>) -> String {
    let texts: Vec<String> = revs.into_iter().map(Rev::to_string).collect();
    if texts.is_empty() { "none".to_string() } else { texts.join(" ") }
}

impl Documents {
    fn command(&mut self, command: Command) -> rereduce::Result<String> {
        Ok(match command {
            Command::Merge(path) => {
                let deleted = path.newest().is_some_and(|rev| is_deletion(&rev));
                let merged = self.tree.merge(&path, Body(deleted))?;
                let kind = match merged.kind {
                    MergeKind::NewLeaf => "a new leaf",
                    MergeKind::NewBranch => "a new branch",
                    MergeKind::Known => "known",
                };
                format!("{kind}{}", if merged.changed { "" } else { ", nothing changed" })
            }
            Command::Stem(limit) => format!("{} forgotten", self.tree.stem(limit)),
            Command::Purge(revs) => format!("purged {}", list(&self.tree.purge(&revs))),
            Command::Draw => {
                let leaf = |(rev, body): (&Rev, &Body)| Some((self.tree.path(rev)?, body.0));
                draw_leaves(&self.tree.leaves().into_iter().filter_map(leaf).collect::<Vec<_>>())
            }
            Command::Conflicts => format!(
                "conflicts {}, deleted {}",
                list(self.tree.conflicts()),
                list(self.tree.deleted_conflicts())
            ),
            Command::Open(revs, latest) => {
                let opened = self.tree.open_revs(&revs, latest);
                let opened = opened.iter().map(|opened| match opened {
                    OpenRev::Found(rev, _) => format!("found {rev}"),
                    OpenRev::Missing(rev) => format!("missing {rev}"),
                });
                opened.collect::<Vec<_>>().join(", ")
            }
            Command::Path(rev) => {
                list(&self.tree.path(&rev).unwrap_or_default().revs().collect::<Vec<_>>())
            }
            Command::Info(rev) => {
                let info = self.tree.revs_info(&rev);
                let info = info.iter().map(|(rev, status)| format!("{rev} {}", status.as_str()));
                info.collect::<Vec<_>>().join(", ")
            }
            Command::Missing(revs) => {
                let missing = self.tree.missing(&revs);
                let ancestors = self.tree.possible_ancestors(&missing);
                format!("missing {}, possible ancestors {}", list(&missing), list(ancestors))
            }
            Command::Edit(base, deleted) => match self.tree.parent_for_edit(base.as_ref(), deleted)
            {
                EditParent::First => "the first revision".to_string(),
                EditParent::Rev(rev) => format!("builds on {rev}"),
                EditParent::Recreated(rev) => format!("written again behind {rev}"),
                EditParent::Conflict => "conflict".to_string(),
            },
            Command::Forget => {
                self.tree = RevTree::default();
                String::new()
            }
            Command::Id(parent, Json::Object(body)) => {
                let rev = revision_id(false, parent.as_ref(), &body, &[]);
                rev.map_or("none".to_string(), |rev| rev.to_string())
            }
            Command::Id(..) => "a body is an object".to_string(),
            Command::Show(text) => Json::parse(text.as_bytes())?.to_string(),
            Command::Attach(name, media, text) => record(&name, &media, text.as_bytes()),
        })
    }
}

fn record(name: &str, media: &str, content: &[u8]) -> String {
    let mut stored = Vec::new();
    let mut encoder = AttachmentEncoder::new(name, media);
    encoder.write(content, &mut stored);
    let Attachment { length, encoded_length, encoding, digest, .. } =
        encoder.finish(1, &mut stored);
    format!("{length} bytes, {encoded_length} stored as {encoding:?}, {digest}")
}
