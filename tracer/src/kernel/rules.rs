//! Probes on what rules call: which rule ran.

use super::load::named;
use super::taps::{attach_error, program};
use super::targets::{RuleStores, TARGETS, Target};
use super::{KernelError, Programs, features};
use aya::Ebpf;
use aya::maps::{Array, ProgramArray};
use aya::programs::kprobe::KProbeLinkId;
use aya::programs::{KProbe, ProgramError};
use std::collections::{BTreeMap, BTreeSet};
use tracer_common::RuleOffsets;
use tracer_core::btf::RuleLayout;
use zerocopy::IntoBytes;

/// The program in which a search goes on, and the map by which it is called.
const SEARCH: &str = "srctrace_rule_search";
const NEXT: &str = "RULE_NEXT";
/// The section of the object that holds `RULE_OFFSETS`, and so the map's name.
const LAYOUT: &str = ".data.rules";

/// What a missing probe costs.
const EFFECT: &str = "which rule rewrote a packet is not observed but replayed from the rules";
const PASSING_EFFECT: &str =
    "which rules exempted or marked a packet is not observed but replayed from the rules";

/// The probes that are there.
#[derive(Debug, Default)]
pub(super) struct RuleProbes {
    /// By function: the program and its link.
    links: BTreeMap<&'static str, (&'static str, KProbeLinkId)>,
    loaded: BTreeSet<&'static str>,
    /// Whether those that every packet passes were given up.
    left: bool,
}

impl Programs {
    /// Attaches the probes on those functions that this kernel has now and that are not probed yet;
    /// `full`: also those that every packet passes. What cannot be observed is noted in
    /// [`Attached::unavailable`](super::Attached::unavailable). Gives the functions that are new.
    pub fn observe_rules(&mut self, stores: &RuleStores, full: bool) -> Vec<&'static str> {
        let present = match features::kprobes().and(stores.functions.clone()) {
            Ok(present) => present,
            Err(why) => {
                self.lacks("kprobe", why, EFFECT);
                return Vec::new();
            }
        };
        if let Err(error) = self.prepare_search(&stores.layout) {
            self.lacks("kprobe", error.to_string(), EFFECT);
            return Vec::new();
        }
        let left = self.rule_probes.left;
        let wanted = TARGETS.iter().filter(|t| !t.passing || full && !left);
        wanted
            .flat_map(|target| self.observe(target, stores, &present))
            .collect()
    }

    /// Attaches what is new of one kind.
    fn observe(
        &mut self,
        target: &Target,
        stores: &RuleStores,
        present: &BTreeSet<&'static str>,
    ) -> Vec<&'static str> {
        let here = target.functions.iter().copied();
        let here = here.filter(|f| present.contains(f) && !self.rule_probes.links.contains_key(f));
        let here: Vec<&'static str> = here.collect();
        // No such function: no rule of that kind can be there.
        if here.is_empty() {
            return here;
        }
        let effect = if target.passing {
            PASSING_EFFECT
        } else {
            EFFECT
        };
        if !(target.is_readable)(&stores.layout) {
            let mut why = "this kernel's BTF does not describe its rule stores".to_owned();
            if let Some(refused) = &stores.refused {
                why.push_str(&format!(", and the built-in layout is not used: {refused}"));
            }
            self.lacks(target.what, why, effect);
            return Vec::new();
        }
        if let Err(error) = self.attach_target(target, &here) {
            self.lacks(target.what, error.to_string(), effect);
            return Vec::new();
        }
        self.attached.unavailable.retain(|row| row.0 != target.what);
        here
    }

    /// Takes the probes that every packet passes away.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn leave_passing(&mut self) -> Result<(), KernelError> {
        self.rule_probes.left = true;
        let links = std::mem::take(&mut self.rule_probes.links);
        for (function, (name, link)) in links {
            if !TARGETS.iter().any(|t| t.passing && t.program == name) {
                self.rule_probes.links.insert(function, (name, link));
                continue;
            }
            let detached = kprobe(&mut self.ebpf, name)?.detach(link);
            detached.map_err(|e| attach_error(&format!("function {function}"), e))?;
            self.attached.kprobes -= 1;
        }
        Ok(())
    }

    /// Loads the program in which every search goes on, and says where things are.
    fn prepare_search(&mut self, layout: &RuleLayout) -> Result<(), KernelError> {
        let failed = |map| {
            move |source| KernelError::Map {
                map,
                source: Box::new(source),
            }
        };
        let mut bytes = [0; size_of::<RuleOffsets>()];
        bytes.copy_from_slice(layout.offsets.as_bytes());
        let map = named(&mut self.ebpf, LAYOUT)?;
        let mut offsets: Array<_, [u8; size_of::<RuleOffsets>()]> =
            Array::try_from(map).map_err(failed(LAYOUT))?;
        offsets.set(0, bytes, 0).map_err(failed(LAYOUT))?;
        if !self.rule_probes.loaded.insert(SEARCH) {
            return Ok(());
        }
        let refused = |source| KernelError::Program {
            program: SEARCH,
            source: Box::new(source),
        };
        let search = kprobe(&mut self.ebpf, SEARCH)?;
        search.load().map_err(refused)?;
        let search = search.fd().map_err(refused)?.try_clone();
        let search = search.map_err(|error| refused(ProgramError::IOError(error)))?;
        let next = named(&mut self.ebpf, NEXT)?;
        let mut next = ProgramArray::try_from(next).map_err(failed(NEXT))?;
        next.set(0, &search, 0).map_err(failed(NEXT))
    }

    fn attach_target(&mut self, target: &Target, here: &[&'static str]) -> Result<(), KernelError> {
        let probe = kprobe(&mut self.ebpf, target.program)?;
        if self.rule_probes.loaded.insert(target.program) {
            probe.load().map_err(|source| KernelError::Program {
                program: target.program,
                source: Box::new(source),
            })?;
        }
        for function in here {
            let link = probe
                .attach(function, 0)
                .map_err(|source| attach_error(&format!("function {function}"), source))?;
            let links = &mut self.rule_probes.links;
            links.insert(function, (target.program, link));
            self.attached.kprobes += 1;
        }
        Ok(())
    }

    /// Notes what is not observed; what was said of it before is no longer so.
    fn lacks(&mut self, what: &str, why: String, effect: &str) {
        let rows = &mut self.attached.unavailable;
        rows.retain(|row| row.0 != what);
        rows.push((what.to_owned(), why, effect.to_owned()));
    }
}

fn kprobe<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut KProbe, KernelError> {
    program(ebpf, name)?
        .try_into()
        .map_err(|_| KernelError::ForeignObject(format!("{name} is no kprobe")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Filter, Reader, Sizes, read_types};
    use aya::programs::ProgramType;
    use aya::sys::is_program_supported;
    use std::time::Instant;

    /// A kernel may take the programs and yet have no kprobes to attach them to.
    #[test]
    fn the_verifier_takes_the_programs() {
        let types = read_types().unwrap();
        if !is_program_supported(ProgramType::KProbe).unwrap() {
            return println!("this kernel takes no kprobe programs");
        }
        let filter = Filter::default();
        let (mut programs, _ring) =
            Programs::load(&filter, Reader::Memory(&types), Sizes::GLANCE).unwrap();
        let start = Instant::now();
        programs.prepare_search(&types.rules).unwrap();
        println!("search: {:?}", start.elapsed());
        let search = kprobe(&mut programs.ebpf, SEARCH).unwrap();
        println!("{:?}", search.info().unwrap().verified_instruction_count());
        for target in TARGETS {
            let start = Instant::now();
            let probe = kprobe(&mut programs.ebpf, target.program).unwrap();
            probe.load().unwrap();
            println!("{}: {:?}", target.program, start.elapsed());
            println!("{:?}", probe.info().unwrap().verified_instruction_count());
        }
    }
}
