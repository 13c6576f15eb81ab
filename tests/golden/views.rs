//! Scripts about views: documents, design documents, and what is asked of them.

use std::str::FromStr;

use rereduce::env::Env;
use rereduce::http::{Node, NodeOptions, Request, handle};
use rereduce::view::javascript::{JavaScript, Limits};
use rereduce::vocabulary::Json;

use super::script::Layer;

/// A command of the scripts.
enum Command {
    /// `put ID JSON`: a document, in the place of the one that is there.
    Put(String, String),
    /// `delete ID`.
    Delete(String),
    /// `view NAME REDUCE MAP`: a view of its own design document `NAME`; `-` reduces nothing.
    View(String, String, String),
    /// `ask NAME [QUERY]`: the rows, one a line, behind what the answer says about them all. In the
    /// query `"`, `{`, `}`, `[` and `]` stand as they are.
    Ask(String, String),
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Command, String> {
        let mut words = line.splitn(4, ' ').map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        let (verb, name) = (word(), word());
        let (third, rest) = (word(), word());
        Ok(match verb.as_str() {
            "put" if rest.is_empty() => Command::Put(name, third),
            "put" => Command::Put(name, format!("{third} {rest}")),
            "delete" => Command::Delete(name),
            "view" => Command::View(name, third, rest),
            "ask" => Command::Ask(name, third),
            other => return Err(format!("{other} is no command")),
        })
    }
}

struct Views {
    node: Node,
}

pub(crate) fn layer() -> Box<dyn Layer> {
    let mut options = NodeOptions::default();
    options.views.tree.fan_out_max = 3;
    let node = Node::open(Env::memory(), "data".as_ref(), options)
        .with_javascript(JavaScript::new(Limits::default()));
    let views = Views { node };
    views.send("PUT", "/db", "").unwrap();
    Box::new(views)
}

impl Views {
    /// The answer, or the reason of a refusal.
    fn send(&self, method: &str, target: &str, body: &str) -> Result<Json, String> {
        let mut request = Request::new(method, target);
        if !body.is_empty() {
            request = request.with_json(body);
        }
        let response = handle(&self.node, request);
        let json = Json::parse(&response.body).map_err(|error| error.to_string())?;
        match (response.status, json.member("reason")) {
            (400.., Some(reason)) => Err(reason.as_str().unwrap_or_default().to_owned()),
            _ => Ok(json),
        }
    }

    /// Writes a document over the revision that is there.
    fn write(&self, method: &str, id: &str, body: &str) -> Result<(), String> {
        let rev = self.send("GET", &format!("/db/{id}"), "").ok();
        let rev = rev.as_ref().and_then(|document| document.member("_rev")).and_then(Json::as_str);
        let target = rev.map_or(format!("/db/{id}"), |rev| format!("/db/{id}?rev={rev}"));
        self.send(method, &target, body).map(drop)
    }

    fn ask(&self, name: &str, query: &str) -> Result<String, String> {
        let answer = self.send("GET", &format!("/db/_design/{name}/_view/{name}?{query}"), "")?;
        let Some(Json::Array(rows)) = answer.member("rows") else { return Err("no rows".into()) };
        let mut lines = Vec::new();
        if let (Some(total), Some(offset)) = (answer.member("total_rows"), answer.member("offset"))
        {
            lines.push(format!("{} of {total} rows, offset {offset}", rows.len()));
        }
        lines.extend(rows.iter().map(row));
        if lines.is_empty() {
            lines.push("no rows".to_owned());
        }
        Ok(lines.join("\n"))
    }
}

fn row(row: &Json) -> String {
    let member = |name| row.member(name).map(Json::to_string).unwrap_or_default();
    let id = row.member("id").and_then(Json::as_str).map(|id| format!("{id}  "));
    let mut line = format!("{}{} → {}", id.unwrap_or_default(), member("key"), member("value"));
    // Of a document only what a script put into it.
    if let Some(Json::Object(members)) = row.member("doc") {
        let own = members.iter().filter(|(name, _)| name != "_rev").cloned().collect();
        line += &format!("  {}", Json::Object(own));
    }
    line
}

impl Layer for Views {
    fn run(&mut self, line: &str) -> Result<String, String> {
        match line.parse()? {
            Command::Put(id, body) => self.write("PUT", &id, &body)?,
            Command::Delete(id) => self.write("DELETE", &id, "")?,
            Command::View(name, reduce, map) => {
                let mut view = vec![("map".to_owned(), Json::String(map))];
                if reduce != "-" {
                    view.push(("reduce".to_owned(), Json::String(reduce)));
                }
                let views = Json::Object(vec![(name.clone(), Json::Object(view))]);
                let design = Json::Object(vec![("views".to_owned(), views)]);
                self.write("PUT", &format!("_design/{name}"), &design.to_string())?;
            }
            Command::Ask(name, query) => return self.ask(&name, &query),
        }
        Ok(String::new())
    }
}
