//! The designs of reduce indexes, by name: each keeps the rows of a view and answers queries of
//! them. Another design is one more line in [`DESIGNS`].

use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree, TreeOptions};
use rereduce::collate::Collation;
use rereduce::file::MemoryChunks;
use rereduce::view::reducer::ViewReducer;
use rereduce::view::rows::{TreeRows, ViewRows};
use rereduce::vocabulary::Edit;

/// What an index is built from.
pub(super) struct Plan {
    pub(super) collation: Collation,
    pub(super) reducer: ViewReducer,
    /// Entries of a node at most.
    pub(super) fan_out: usize,
    /// Bytes of nodes that are kept in memory.
    pub(super) cache_bytes: usize,
    /// Rows that come and go, one batch after the other.
    pub(super) batches: Vec<Vec<Edit>>,
}

/// An index that holds the rows of a plan.
pub(super) trait Design {
    /// Calls `asked` with the rows as a query reads them.
    fn ask(&self, asked: &mut dyn FnMut(&dyn ViewRows) -> Result<(), String>)
    -> Result<(), String>;

    /// What is wrong with the structure, if anything.
    fn check(&self) -> Result<(), String>;
}

/// Builds an index.
type Build = fn(Plan) -> Result<Box<dyn Design>, String>;

/// All designs.
pub(super) const DESIGNS: &[(&str, Build)] = &[("btree", in_tree)];

/// Rows in a B+tree.
struct InTree {
    tree: Tree,
    chunks: MemoryChunks,
    cache: NodeCache,
    shape: Shape,
    collation: Collation,
    reducer: ViewReducer,
}

fn in_tree(plan: Plan) -> Result<Box<dyn Design>, String> {
    let Plan { collation, reducer, fan_out, cache_bytes, batches } = plan;
    let options = TreeOptions { fan_out_max: fan_out, ..TreeOptions::default() };
    let shape = Shape { options, ..Shape::with_reducer(reducer.clone()) };
    let (mut tree, mut chunks) = (Tree::empty(), MemoryChunks::default());
    let cache = NodeCache::new(cache_bytes);
    for edits in &batches {
        let applied = tree.apply(&mut chunks, &cache, &shape, edits);
        tree = applied.map_err(|error| format!("the build failed: {error}"))?;
    }
    Ok(Box::new(InTree { tree, chunks, cache, shape, collation, reducer }))
}

impl Design for InTree {
    fn ask(
        &self,
        asked: &mut dyn FnMut(&dyn ViewRows) -> Result<(), String>,
    ) -> Result<(), String> {
        let nodes = &CachedNodes::new(&self.chunks, &self.cache);
        let (tree, shape, collation) = (&self.tree, &self.shape, self.collation);
        asked(&TreeRows { tree, nodes, shape, collation, reducer: &self.reducer })
    }

    fn check(&self) -> Result<(), String> {
        let nodes = &CachedNodes::new(&self.chunks, &self.cache);
        let checked = self.tree.check(nodes, &self.shape).map_err(|error| error.to_string())?;
        match checked.violations.first() {
            None => Ok(()),
            Some(violation) => Err(format!("the tree breaks a rule: {violation:?}")),
        }
    }
}
