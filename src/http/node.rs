//! A node: the databases in one folder, and what runs the functions of their design documents.
//!
//! ```text
//!   FOLDER/a.rereduce          database "a"
//!   FOLDER/a.rereduce.views/   its indexes
//!   FOLDER/b%2Fc.rereduce      database "b/c"
//! ```
//!
//! Invariant: a database is open once, however many requests ask for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

#[cfg(not(feature = "javascript"))]
use super::no_functions::NoFunctions as Functions;
use crate::db::{Database, DatabaseOptions};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::view::functions::Language;
use crate::view::index::{Views, ViewsOptions};
#[cfg(feature = "javascript")]
use crate::view::javascript::DesignFunctions as Functions;
#[cfg(feature = "javascript")]
use crate::view::javascript::JavaScript;
use crate::vocabulary::{Json, Rev};

use super::design_functions::Design;
use super::request::escaped;

/// How a node opens its databases.
///
/// ```
/// use rereduce::http::NodeOptions;
/// assert!(NodeOptions::default().database.create);
/// ```
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    /// Of each database.
    pub database: DatabaseOptions,
    /// Of its indexes.
    pub views: ViewsOptions,
}

/// Databases in a folder, to be asked over HTTP; see [`handle`](super::handle).
///
/// ```
/// use std::sync::Arc;
/// use rereduce::env::Env;
/// use rereduce::http::{Node, NodeOptions, Request, handle};
/// use rereduce::view::functions::RustMaps;
/// use rereduce::vocabulary::Json;
///
/// let by_name = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
///     emit(document.member("name").cloned().unwrap_or(Json::Null), Json::Null);
/// };
/// let node = Node::open(Env::memory(), "data".as_ref(), NodeOptions::default())
///     .with_language("rust", Arc::new(RustMaps::new(vec![Arc::new(by_name)])));
/// let design = r#"{"language":"rust","views":{"names":{"map":"by_name"}}}"#;
/// for (target, body) in
///     [("/db", ""), ("/db/_design/d", design), ("/db/a", r#"{"name":"ada"}"#)]
/// {
///     assert_eq!(handle(&node, Request::new("PUT", target).with_json(body)).status, 201);
/// }
/// let response = handle(&node, Request::new("GET", "/db/_design/d/_view/names"));
/// let body = String::from_utf8(response.body).unwrap();
/// assert!(body.contains(r#"{"id":"a","key":"ada","value":null}"#));
/// ```
pub struct Node {
    env: Env,
    folder: PathBuf,
    options: NodeOptions,
    languages: BTreeMap<String, Arc<dyn Language>>,
    #[cfg(feature = "javascript")]
    javascript: Option<JavaScript>,
    opened: Mutex<BTreeMap<String, Arc<OpenDatabase>>>,
}

/// A database of a node, and its indexes.
pub(super) struct OpenDatabase {
    pub(super) name: String,
    pub(super) database: Arc<Database>,
    pub(super) views: Views,
    /// The functions of design documents that wait to be called again, by their id.
    idle: Mutex<BTreeMap<String, Idle>>,
}

/// Functions of one revision of a design document. They keep what they have compiled, and the
/// modules that they have loaded.
struct Idle {
    rev: Option<Rev>,
    functions: Vec<Functions>,
}

impl OpenDatabase {
    /// Calls functions of `design`, which this thread has for itself meanwhile. After an error of
    /// the process that runs them they are not used again.
    pub(super) fn call<T>(
        &self,
        node: &Node,
        design: &Design,
        work: impl FnOnce(&mut Functions) -> Result<T>,
    ) -> Result<T> {
        let waiting = match self.idle().get_mut(&design.id) {
            Some(idle) if idle.rev == design.rev => idle.functions.pop(),
            _ => None,
        };
        let mut functions = match waiting {
            Some(functions) => functions,
            None => node.functions(&design.json)?,
        };
        let result = work(&mut functions);
        if !matches!(&result, Err(Error::Function { name, .. }) if name == "os_process_error") {
            let mut idle = self.idle();
            let nobody = || Idle { rev: design.rev.clone(), functions: Vec::new() };
            let idle = idle.entry(design.id.clone()).or_insert_with(nobody);
            if idle.rev != design.rev {
                *idle = nobody();
            }
            idle.functions.push(functions);
        }
        result
    }

    fn idle(&self) -> MutexGuard<'_, BTreeMap<String, Idle>> {
        // The map is whole whenever the lock is let go.
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Node {
    /// A node over the databases in `folder`, which are opened when they are first asked for.
    pub fn open(env: Env, folder: &Path, options: NodeOptions) -> Node {
        Node {
            env,
            folder: folder.to_path_buf(),
            options,
            languages: BTreeMap::new(),
            #[cfg(feature = "javascript")]
            javascript: None,
            opened: Mutex::new(BTreeMap::new()),
        }
    }

    /// The same node, which runs design documents of the language `name` by `language`.
    pub fn with_language(mut self, name: &str, language: Arc<dyn Language>) -> Node {
        self.languages.insert(name.to_owned(), language);
        self
    }

    /// The same node, which runs design documents in JavaScript, all of their functions.
    #[cfg(feature = "javascript")]
    pub fn with_javascript(mut self, javascript: JavaScript) -> Node {
        self.javascript = Some(javascript.clone());
        self.with_language("javascript", Arc::new(javascript))
    }

    /// What runs the language `name`, if anything does.
    pub(super) fn language(&self, name: &str) -> Option<&Arc<dyn Language>> {
        self.languages.get(name)
    }

    /// The functions of `design`, a whole design document, beside those of its views.
    ///
    /// [`Error::Function`] with the name `unknown_query_language` if nothing here runs them.
    fn functions(&self, design: &Json) -> Result<Functions> {
        let named = design.member("language").and_then(Json::as_str).unwrap_or("javascript");
        #[cfg(feature = "javascript")]
        if let Some(javascript) = self.javascript.as_ref().filter(|_| named == "javascript") {
            return Functions::new(design, javascript);
        }
        let name = "unknown_query_language".to_owned();
        Err(Error::Function { name, reason: named.to_owned() })
    }

    fn opened(&self) -> MutexGuard<'_, BTreeMap<String, Arc<OpenDatabase>>> {
        // The map is whole whenever the lock is let go.
        self.opened.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.rereduce", escaped(name)))
    }

    /// The database called `name`; [`Error::Missing`] if there is none.
    pub(super) fn database(&self, name: &str) -> Result<Arc<OpenDatabase>> {
        let mut opened = self.opened();
        match opened.get(name) {
            Some(open) => Ok(open.clone()),
            None => match self.env.disk.identity(&self.path(name))? {
                Some(_) => self.open_database(&mut opened, name, false),
                None => Err(Error::Missing { what: "database", name: name.to_owned() }),
            },
        }
    }

    /// Makes the database `name`; `None` if there is one.
    pub(super) fn create(&self, name: &str) -> Result<Option<Arc<OpenDatabase>>> {
        let mut opened = self.opened();
        if opened.contains_key(name) || self.env.disk.identity(&self.path(name))?.is_some() {
            return Ok(None);
        }
        self.open_database(&mut opened, name, true).map(Some)
    }

    fn open_database(
        &self,
        opened: &mut BTreeMap<String, Arc<OpenDatabase>>,
        name: &str,
        create: bool,
    ) -> Result<Arc<OpenDatabase>> {
        let path = self.path(name);
        let options = DatabaseOptions { create, ..self.options.database.clone() };
        let database = Arc::new(Database::open(self.env.clone(), &path, options)?);
        let views =
            Views::open(self.env.clone(), database.clone(), &path, self.options.views.clone())?;
        let open = Arc::new(OpenDatabase {
            name: name.to_owned(),
            database,
            views,
            idle: Mutex::default(),
        });
        opened.insert(name.to_owned(), open.clone());
        Ok(open)
    }

    /// 16 random bytes in hexadecimal, for a document that came without an id.
    pub(super) fn uuid(&self) -> Result<String> {
        let mut bytes = [0; 16];
        self.env.entropy.fill(&mut bytes)?;
        Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
    }
}
