//! What is known of the kernel's rule stores: at the start, and again when a module of theirs is
//! loaded while the trace runs.

use super::selfcheck;
use crate::kernel::{self, KernelTypes, RuleStores, features};
use crate::system::{Roots, symbols};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracer_core::btf::RuleLayout;

/// What is known now.
pub(super) fn stores(roots: &Roots, types: &KernelTypes) -> RuleStores {
    // The list takes time to read, and is not read where there are no probes.
    let functions = features::kprobes().and_then(|_| {
        let functions = symbols::kernel_functions(roots, &kernel::target_functions());
        functions.map_err(|error| error.to_string())
    });
    let mut stores = RuleStores {
        layout: types.rules,
        functions,
        refused: None,
    };
    if let (Some(built_in), Ok(functions)) = (types.unchecked_rules, &stores.functions) {
        let candidate = rehearse(built_in);
        match selfcheck::check(types, candidate, functions) {
            Ok(()) => stores.layout = candidate,
            Err(why) => stores.refused = Some(why),
        }
    }
    stores
}

/// `SRCTRACE_WRONG_LAYOUT` makes the built-in layout a wrong one, to see that it is refused.
fn rehearse(mut layout: RuleLayout) -> RuleLayout {
    if std::env::var_os("SRCTRACE_WRONG_LAYOUT").is_some() {
        layout.offsets.rule_handle_bit += 1;
    }
    layout
}

/// Modules with functions that are probed, or with structures that are read.
const MODULES: [&str; 14] = [
    "x_tables",
    "ip_tables",
    "iptable_nat",
    "nf_nat",
    "xt_MASQUERADE",
    "xt_nat",
    "xt_NETMAP",
    "xt_REDIRECT",
    "xt_mark",
    "nf_tables",
    "nft_compat",
    "nft_masq",
    "nft_nat",
    "nft_redir",
];

/// A module is looked at when it comes, and once more this much later: it shows its functions
/// before it is ready, and seldom comes alone.
const AGAIN: Duration = Duration::from_millis(300);
/// Looks that may fail, each of which is made again.
const FAILURES: u32 = 5;

/// Waits for modules to be loaded. Asking costs a system call for each one that is not there.
pub(super) struct Modules {
    roots: Roots,
    folder: PathBuf,
    absent: Vec<&'static str>,
    began: Instant,
    /// When to look again.
    due: Vec<Instant>,
    looking: Option<JoinHandle<Option<RuleStores>>>,
    /// Looks that showed nothing.
    failed: u32,
}

impl Modules {
    /// To be called before the kernel's functions are listed for the first time: a module that comes while the trace is
    /// being armed may not be in that list.
    pub(super) fn watch(roots: Roots) -> Self {
        Self::of(roots, Path::new("/sys/module").to_owned())
    }

    /// The trace begins now.
    pub(super) fn begin(&mut self) {
        self.began = Instant::now();
    }

    fn of(roots: Roots, folder: PathBuf) -> Self {
        let mut modules = Self {
            roots,
            folder,
            absent: MODULES.to_vec(),
            began: Instant::now(),
            due: Vec::new(),
            looking: None,
            failed: 0,
        };
        modules.came();
        modules
    }

    /// How long they have been waited for.
    pub(super) fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    /// What is known anew, once a module came.
    pub(super) fn news(&mut self) -> Option<RuleStores> {
        let now = Instant::now();
        if self.came() {
            self.due = vec![now, now + AGAIN];
        }
        if let Some(looking) = self.looking.take_if(|looking| looking.is_finished()) {
            let seen = looking.join().ok().flatten();
            // A module may go while it is looked at.
            if seen.is_none() && self.due.is_empty() && self.failed < FAILURES {
                self.failed += 1;
                self.due.push(now + AGAIN);
            }
            return seen;
        }
        if self.looking.is_none() && self.due.first().is_some_and(|due| *due <= now) {
            self.due.remove(0);
            let roots = self.roots.clone();
            let thread = std::thread::Builder::new().name("srctrace".into());
            self.looking = thread.spawn(move || look(&roots)).ok();
        }
        None
    }

    /// Whether one came that was not there.
    fn came(&mut self) -> bool {
        let before = self.absent.len();
        let folder = &self.folder;
        self.absent.retain(|name| !folder.join(name).exists());
        self.absent.len() < before
    }
}

fn look(roots: &Roots) -> Option<RuleStores> {
    let types = kernel::read_types().ok()?;
    let probed = features::kprobes().is_ok();
    Some(stores(roots, &types)).filter(|stores| stores.functions.is_ok() || !probed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_comes_is_looked_at_twice() {
        let folder = std::env::temp_dir().join(format!("srctrace-modules-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("x_tables")).unwrap();
        let mut modules = Modules::of(Roots::default(), folder.clone());
        assert!(modules.news().is_none() && modules.looking.is_none());
        std::fs::create_dir(folder.join("nft_masq")).unwrap();
        let mut looks = 0;
        let end = Instant::now() + Duration::from_secs(60);
        while looks < 2 && Instant::now() < end {
            looks += usize::from(modules.news().is_some());
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((looks, modules.due.len()), (2, 0));
        assert!(modules.news().is_none() && modules.looking.is_none());
    }
}
