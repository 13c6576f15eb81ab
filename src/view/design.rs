//! Design documents: which views they define, and what their functions are.
//!
//! ```text
//!   { "language": "javascript",             -> language
//!     "options": { "include_design": true }, -> include_design, local_seq
//!     "views": {
//!       "lib": { ... },                      -> library
//!       "by_day": { "map": "...",            -> views[0]
//!                   "reduce": "_sum",
//!                   "options": { "collation": "raw" } } } }
//! ```
//!
//! Invariant: two design documents with one signature have the same views, so they may share an
//! index; every difference that a query could see is in the signature.

mod forms;

use std::fmt;

use md5::{Digest, Md5};

use crate::codec::put_bytes;
use crate::collate::Collation;
use crate::error::{Error, Result};
use crate::view::builtin::Builtin;
use crate::view::functions::{Language, Sources};
use crate::vocabulary::Json;

/// Names what an index holds: all design documents with equal views have the same.
///
/// ```
/// use rereduce::view::design::Signature;
/// assert_eq!(Signature([0xab; 16]).to_string(), "ab".repeat(16));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(pub [u8; 16]);

impl fmt::Display for Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// How a view reduces its rows.
///
/// ```
/// use rereduce::view::builtin::Builtin;
/// use rereduce::view::design::Reduce;
/// assert_ne!(Reduce::Builtin(Builtin::Count), Reduce::Function(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// By a built-in.
    Builtin(Builtin),
    /// By the function with this number in [`Sources::reduces`].
    Function(usize),
}

/// One view of a design document.
///
/// ```
/// use rereduce::collate::Collation;
/// use rereduce::view::design::ViewDefinition;
/// let view = ViewDefinition {
///     name: "by_day".into(), map: 0, reduce: None, collation: Collation::Unicode,
/// };
/// assert!(view.reduce.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDefinition {
    /// Its name.
    pub name: String,
    /// The number of its map function in [`Sources::maps`].
    pub map: usize,
    /// How its rows are reduced, if they are.
    pub reduce: Option<Reduce>,
    /// The order of its keys.
    pub collation: Collation,
}

/// What a design document says about views.
///
/// ```
/// use rereduce::view::builtin::Builtin;
/// use rereduce::view::design::{DesignDoc, Reduce};
/// use rereduce::vocabulary::Json;
/// let text = br#"{"views":{"n":{"map":"function(doc) { emit(doc.n, 1); }","reduce":"_sum"}}}"#;
/// let design = DesignDoc::parse(&Json::parse(text)?)?;
/// assert_eq!(design.views[0].reduce, Some(Reduce::Builtin(Builtin::Sum)));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesignDoc {
    /// The language of its functions; `javascript` if it names none.
    pub language: String,
    /// Map design documents too.
    pub include_design: bool,
    /// Show map functions the document's sequence as `_local_seq`.
    pub local_seq: bool,
    /// Its views in the order in which they stand; views with equal map functions share one.
    pub views: Vec<ViewDefinition>,
    /// Their functions.
    pub sources: Sources,
}

impl DesignDoc {
    /// Reads the members of a design document that concern views.
    ///
    /// [`Error::InvalidDesignDoc`] with CouchDB's reason if one of its members, those of other
    /// functions too, has the wrong form. No function is compiled:
    /// [`DesignDoc::check_functions`] does that. Cost: proportional to the sources.
    // spec: QUERY-11
    pub fn parse(document: &Json) -> Result<DesignDoc> {
        forms::check(document)?;
        let option = |name: &str| {
            let option = document.member("options").and_then(|options| options.member(name));
            option == Some(&Json::Bool(true))
        };
        let mut design = DesignDoc {
            language: forms::language(document).to_owned(),
            include_design: option("include_design"),
            local_seq: option("local_seq"),
            views: Vec::new(),
            sources: Sources::default(),
        };
        if let Some(Json::Object(views)) = document.member("views") {
            for (name, view) in views {
                match name.as_str() {
                    "lib" => design.sources.library = Some(view.clone()),
                    _ => design.add(name, view)?,
                }
            }
        }
        if option("partitioned") {
            let reason = "partitioned option cannot be true in a non-partitioned database.";
            return Err(invalid(reason));
        }
        Ok(design)
    }

    fn add(&mut self, name: &str, view: &Json) -> Result<()> {
        let Some(map) = view.member("map") else {
            return Err(invalid(&format!("View `{name}` must contain map function")));
        };
        // A selector in place of a function is text like the others.
        let map = map.as_str().map_or_else(|| map.to_string(), str::to_owned);
        let reduce = view.member("reduce").and_then(Json::as_str).map(|source| {
            match Builtin::parse(source) {
                Ok(Some(builtin)) => Reduce::Builtin(builtin),
                // What only looks like a built-in is refused by `check_functions`.
                Ok(None) | Err(_) => Reduce::Function(number_of(&mut self.sources.reduces, source)),
            }
        });
        let collation = view.member("options").and_then(|options| options.member("collation"));
        self.views.push(ViewDefinition {
            name: name.to_owned(),
            map: number_of(&mut self.sources.maps, &map),
            reduce,
            collation: match collation.and_then(Json::as_str) {
                Some("raw") => Collation::Raw,
                _ => Collation::Unicode,
            },
        });
        Ok(())
    }

    /// Compiles every function of the views, in the order of the sources of the map functions, as
    /// CouchDB does when a design document is written.
    ///
    /// Errors, of the first function with one: [`Error::Function`] with the name
    /// `compilation_error`, [`Error::Missing`] for an empty source, [`Error::InvalidDesignDoc`]
    /// for a reducer that only looks like a built-in. Cost: one start of the language if all is
    /// well.
    // spec: QUERY-12
    pub fn check_functions(&self, language: &dyn Language) -> Result<()> {
        let unnamed = |reduce: &String| reduce.starts_with('_') || reduce.is_empty();
        let empty = self.sources.maps.iter().any(String::is_empty);
        if !empty && !self.sources.reduces.iter().any(unnamed) {
            match language.start(&self.sources) {
                Ok(_) => return Ok(()),
                // Which one it is comes out when each is compiled by itself.
                Err(Error::Function { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let source = |view: &ViewDefinition| self.sources.maps.get(view.map);
        let mut views: Vec<&ViewDefinition> = self.views.iter().collect();
        views.sort_by_key(|view| source(view));
        for view in views {
            if let Some(map) = source(view) {
                self.compile(language, "map", &view.name, map)?;
            }
            if let Some(Reduce::Function(number)) = view.reduce
                && let Some(reduce) = self.sources.reduces.get(number)
            {
                Builtin::parse(reduce)?;
                self.compile(language, "reduce", &view.name, reduce)?;
            }
        }
        Ok(())
    }

    fn compile(&self, language: &dyn Language, kind: &str, view: &str, source: &str) -> Result<()> {
        if source.is_empty() {
            return Err(Error::Missing { what: "function", name: format!("{view}.{kind}") });
        }
        let only = vec![source.to_owned()];
        let (maps, reduces) = if kind == "map" { (only, vec![]) } else { (vec![], only) };
        let sources = Sources { library: self.sources.library.clone(), maps, reduces };
        match language.start(&sources) {
            Ok(_) => Ok(()),
            Err(Error::Function { name, reason }) if name == "compilation_error" => {
                let reason = format!(
                    "Compilation of the {kind} function in the '{view}' view failed: {reason}"
                );
                Err(Error::Function { name, reason })
            }
            Err(error) => Err(error),
        }
    }

    /// The number of the view called `name` in [`DesignDoc::views`].
    pub fn view(&self, name: &str) -> Option<usize> {
        self.views.iter().position(|view| view.name == name)
    }

    /// What names an index of these views.
    pub fn signature(&self) -> Signature {
        let mut text = Vec::new();
        let mut put = |part: &str| put_bytes(&mut text, part.as_bytes());
        put(&self.language);
        put(&format!("{} {}", self.include_design, self.local_seq));
        put(&self.sources.library.as_ref().map_or(String::new(), Json::to_string));
        for source in self.sources.maps.iter().chain(&self.sources.reduces) {
            put(source);
        }
        for view in &self.views {
            put(&format!("{} {} {:?} {:?}", view.name, view.map, view.reduce, view.collation));
        }
        Signature(Md5::digest(&text).into())
    }
}

/// The number of `source` among `sources`, where it is put if it is not there.
fn number_of(sources: &mut Vec<String>, source: &str) -> usize {
    sources.iter().position(|known| known == source).unwrap_or_else(|| {
        sources.push(source.to_owned());
        sources.len() - 1
    })
}

fn invalid(reason: &str) -> Error {
    Error::InvalidDesignDoc { reason: reason.to_owned() }
}
