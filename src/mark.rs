//! Named coverage marks and the switch for planted bugs.
//!
//! A mark says that execution took one branch: a test that means to exercise the branch asserts
//! that the mark was hit, so that it cannot pass for another reason. A planted bug is a named
//! place where the engine can be told to misbehave; the suites must notice each one.
//!
//! Invariant: without the feature `planted` both are constant, and the compiler removes them.

/// Records that the branch called `name` was taken by this thread.
///
/// Does nothing unless the feature `planted` is on.
#[inline(always)]
pub fn hit(name: &'static str) {
    #[cfg(feature = "planted")]
    on::hit(name);
    #[cfg(not(feature = "planted"))]
    let _ = name;
}

/// Whether the planted bug called `name` is switched on for this thread.
///
/// Always `false` unless the feature `planted` is on.
#[inline(always)]
pub fn planted(name: &'static str) -> bool {
    #[cfg(feature = "planted")]
    return on::planted(name);
    #[cfg(not(feature = "planted"))]
    {
        let _ = name;
        false
    }
}

/// The planted bug that is switched on for this thread, for one that works for it.
#[inline(always)]
pub(crate) fn here() -> Option<&'static str> {
    #[cfg(feature = "planted")]
    return on::planted_here();
    #[cfg(not(feature = "planted"))]
    None
}

/// Switches on, in a thread that was just started, what [`here`] said in the one it works for.
#[inline(always)]
pub(crate) fn take_over(planted: Option<&'static str>) {
    #[cfg(feature = "planted")]
    on::plant(planted);
    #[cfg(not(feature = "planted"))]
    let _ = planted;
}

#[cfg(feature = "planted")]
pub use on::{hits, plant, planted_here, reset};

#[cfg(feature = "planted")]
mod on {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    thread_local! {
        static HITS: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
        static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    pub(super) fn hit(name: &'static str) {
        HITS.with_borrow_mut(|hits| *hits.entry(name).or_default() += 1);
    }

    pub(super) fn planted(name: &str) -> bool {
        PLANTED.get() == Some(name)
    }

    /// How often each mark was hit by this thread since the last [`reset`].
    pub fn hits() -> BTreeMap<&'static str, u64> {
        HITS.with_borrow(Clone::clone)
    }

    /// Forgets all hits of this thread.
    pub fn reset() {
        HITS.with_borrow_mut(BTreeMap::clear);
    }

    /// The planted bug that is switched on for this thread; a thread that starts others for the
    /// engine's work hands it on with [`plant`].
    pub fn planted_here() -> Option<&'static str> {
        PLANTED.get()
    }

    /// Switches one planted bug on for this thread, or all off, and returns the one before.
    pub fn plant(name: Option<&'static str>) -> Option<&'static str> {
        PLANTED.replace(name)
    }
}
