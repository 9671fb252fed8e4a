//! Which lab runs on which kernel.

use std::collections::{BTreeMap, BTreeSet};

use super::kernels::Kernel;
use super::labs::Lab;

/// Labs of one boot at most.
const LABS_A_BOOT: usize = 80;

/// The labs of each kernel, in the order of the table.
pub(crate) type Plan<'a> = BTreeMap<Kernel, Vec<&'a Lab>>;

/// One virtual machine: a kernel, what else stands on its command line, and the labs that run in it.
#[derive(Debug)]
pub(crate) struct Boot<'a> {
    /// What boots.
    pub(crate) kernel: Kernel,
    /// What the labs need at the end of its command line.
    pub(crate) words: &'a str,
    /// 0, or which further part of the labs of the same kernel and words this is.
    pub(crate) part: usize,
    /// In the order of the table.
    pub(crate) labs: Vec<&'a Lab>,
}

impl Boot<'_> {
    /// Distinct for each boot of a plan; fit for a folder's name.
    pub(crate) fn name(&self) -> String {
        let words: String = self.words.chars().map(plain).collect();
        let part = match self.part {
            0 => String::new(),
            part => (part + 1).to_string(),
        };
        let parts = [self.kernel.name(), &words, &part];
        let named: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        named.join("-")
    }
}

fn plain(letter: char) -> char {
    if letter.is_ascii_alphanumeric() {
        letter
    } else {
        '_'
    }
}

/// The boots of a plan: of each kernel at least one for the labs that need nothing on its command line, and one for each
/// choice of words that others need there. Many labs are shared out among boots, so that boots side by side end together
/// and none runs for so long that it would pass for one that hangs.
pub(crate) fn boots<'a>(plan: &Plan<'a>) -> Vec<Boot<'a>> {
    let mut boots: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (kernel, labs) in plan {
        for lab in labs {
            boots
                .entry((*kernel, lab.boot.as_str()))
                .or_default()
                .push(*lab);
        }
    }
    let parts = boots.into_iter().flat_map(|((kernel, words), labs)| {
        let parts: Vec<Vec<&Lab>> = labs.chunks(LABS_A_BOOT).map(<[_]>::to_vec).collect();
        parts.into_iter().enumerate().map(move |(part, labs)| Boot {
            kernel,
            words,
            part,
            labs,
        })
    });
    parts.collect()
}

/// Every lab on every one of `kernels` that it declares.
pub(crate) fn everything<'a>(labs: &'a [Lab], kernels: &[Kernel]) -> Plan<'a> {
    let of = |kernel: Kernel| {
        labs.iter()
            .filter(|lab| lab.kernels.contains(&kernel))
            .collect()
    };
    kernels.iter().map(|&kernel| (kernel, of(kernel))).collect()
}

/// What CI runs: on each kernel, labs that together exercise every tap, layout and rule store that any lab exercises
/// there; each scenario row on at least one kernel; and each lab that the machine's own kernel cannot run. A lab that does
/// not say what it exercises is run everywhere.
pub(crate) fn for_ci(labs: &[Lab]) -> Plan<'_> {
    let mut chosen: BTreeMap<Kernel, BTreeSet<usize>> = Kernel::ALL
        .into_iter()
        .map(|kernel| (kernel, covering(labs, kernel)))
        .collect();
    let mut shown: BTreeSet<&str> = chosen
        .values()
        .flatten()
        .flat_map(|&at| rows(&labs[at]))
        .collect();
    for (at, lab) in labs.iter().enumerate() {
        let runs = lab.native || chosen.values().any(|list| list.contains(&at));
        if runs && rows(lab).all(|row| shown.contains(row)) {
            continue;
        }
        // The kernel with the least to do keeps the whole run short.
        let least = lab.kernels.iter().min_by_key(|kernel| chosen[kernel].len());
        if let Some(list) = least.and_then(|kernel| chosen.get_mut(kernel)) {
            list.insert(at);
            shown.extend(rows(lab));
        }
    }
    chosen
        .into_iter()
        .map(|(kernel, list)| (kernel, list.into_iter().map(|at| &labs[at]).collect()))
        .collect()
}

fn rows(lab: &Lab) -> impl Iterator<Item = &str> {
    lab.rows.iter().map(String::as_str)
}

/// Labs that together cover all that labs of `kernel` cover: always the one that adds most.
fn covering(labs: &[Lab], kernel: Kernel) -> BTreeSet<usize> {
    let here = || {
        labs.iter()
            .enumerate()
            .filter(|(_, lab)| lab.kernels.contains(&kernel))
    };
    let mut chosen: BTreeSet<usize> = here()
        .filter(|(_, lab)| lab.covers.is_none())
        .map(|(at, _)| at)
        .collect();
    let mut open: BTreeSet<&str> = here().flat_map(|(_, lab)| covers(lab)).collect();
    while !open.is_empty() {
        let adds = |lab: &Lab| covers(lab).filter(|what| open.contains(what)).count();
        // `max_by_key` would take the last of equals.
        let Some((at, lab)) = here().rev().max_by_key(|(_, lab)| adds(lab)) else {
            break;
        };
        chosen.insert(at);
        covers(lab).for_each(|what| {
            open.remove(what);
        });
    }
    chosen
}

fn covers(lab: &Lab) -> impl Iterator<Item = &str> {
    lab.covers.iter().flatten().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(name: &str, rows: &str, kernels: &[Kernel], covers: Option<&str>) -> Lab {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        Lab {
            native: true,
            name: name.to_owned(),
            rows: words(rows),
            kernels: kernels.to_vec(),
            covers: covers.map(words),
            ..Lab::default()
        }
    }

    fn names(plan: &Plan<'_>) -> Vec<(&'static str, String)> {
        let list = |labs: &Vec<&Lab>| {
            labs.iter()
                .map(|lab| lab.name.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        };
        plan.iter()
            .map(|(kernel, labs)| (kernel.name(), list(labs)))
            .collect()
    }

    #[test]
    fn ci_covers_each_kernel_and_each_row_once() {
        let all = &Kernel::ALL;
        let new = &[Kernel::V6_12, Kernel::V7];
        let labs = [
            lab("one", "A1", all, Some("raw legacy")),
            lab("two", "A2", all, Some("raw")),
            lab("three", "A1 A3", all, Some("raw legacy nft")),
            lab("four", "A3", new, Some("tcx")),
            lab("five", "A5", new, Some("tcx raw")),
            lab("old", "A2", &[Kernel::V5_10], None),
            lab("native", "B1", &[], None),
            Lab {
                native: false,
                ..lab("elsewhere", "A1", &[Kernel::V6_1, Kernel::V7], Some("raw"))
            },
        ];
        assert_eq!(
            names(&for_ci(&labs)),
            [
                ("5.10", "three old".to_owned()),
                ("6.1", "three elsewhere".to_owned()),
                ("6.12", "three four five".to_owned()),
                ("7", "three four".to_owned()),
            ]
        );
    }

    #[test]
    fn labs_that_need_other_words_have_a_boot_of_their_own() {
        let mut locked = lab("locked", "", &[Kernel::V7], None);
        locked.boot = "lockdown=confidentiality".to_owned();
        let labs = [lab("plain", "", &Kernel::ALL, None), locked];
        let plan = everything(&labs, &[Kernel::V6_1, Kernel::V7]);
        let boots: Vec<_> = boots(&plan)
            .into_iter()
            .map(|boot| (boot.name(), boot.labs[0].name.clone(), boot.labs.len()))
            .collect();
        let row = |boot: &str, first: &str, labs| (boot.to_owned(), first.to_owned(), labs);
        assert_eq!(
            boots,
            [
                row("6.1", "plain", 1),
                row("7", "plain", 1),
                row("7-lockdown_confidentiality", "locked", 1),
            ]
        );
    }

    #[test]
    fn many_labs_are_shared_out_among_boots() {
        let many: Vec<Lab> = (0..=LABS_A_BOOT)
            .map(|at| lab(&format!("lab{at}"), "", &[Kernel::V7], None))
            .collect();
        let plan = everything(&many, &[Kernel::V7]);
        let boots: Vec<_> = boots(&plan)
            .iter()
            .map(|boot| (boot.name(), boot.labs.len()))
            .collect();
        assert_eq!(
            boots,
            [("7".to_owned(), LABS_A_BOOT), ("7-2".to_owned(), 1)]
        );
    }

    #[test]
    fn everything_is_what_the_labs_declare() {
        let labs = [
            lab("a", "", &[Kernel::V6_1], Some("")),
            lab("b", "", &Kernel::ALL, None),
        ];
        assert_eq!(
            names(&everything(&labs, &[Kernel::V6_1, Kernel::V7])),
            [("6.1", "a b".to_owned()), ("7", "b".to_owned())]
        );
    }
}
