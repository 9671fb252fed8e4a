//! Probes on NAT targets: which rule translated. They run once per new flow.

use super::load::named;
use super::taps::{attach_error, program};
use super::{KernelError, Programs, features};
use aya::Ebpf;
use aya::maps::ProgramArray;
use aya::programs::{KProbe, ProgramError};
use std::collections::BTreeSet;
use tracer_core::btf::RuleLayout;

/// A kind of NAT target: the kernel functions it may be, by which this kernel is asked for it.
struct Target {
    program: &'static str,
    what: &'static str,
    functions: &'static [&'static str],
}

/// The program in which a search goes on, and the map by which it is called.
const SEARCH: &str = "srctrace_rule_search";
const NEXT: &str = "RULE_NEXT";

const EFFECT: &str = "which rule rewrote a packet is not observed but replayed from the rules";

/// net/netfilter/xt_MASQUERADE.c, xt_nat.c, xt_NETMAP.c, xt_REDIRECT.c
const XT: Target = Target {
    program: "srctrace_xt_target",
    what: "NAT targets of iptables",
    functions: &[
        "masquerade_tg",
        "masquerade_tg6",
        "xt_snat_target_v0",
        "xt_snat_target_v1",
        "xt_snat_target_v2",
        "xt_dnat_target_v0",
        "xt_dnat_target_v1",
        "xt_dnat_target_v2",
        "netmap_tg4",
        "netmap_tg6",
        "redirect_tg4",
        "redirect_tg6",
    ],
};

/// net/netfilter/nft_masq.c, nft_nat.c, nft_redir.c: one function for all families, or one each.
const NFT: Target = Target {
    program: "srctrace_nft_expr",
    what: "NAT expressions of nftables",
    functions: &[
        "nft_masq_eval",
        "nft_masq_ipv4_eval",
        "nft_masq_ipv6_eval",
        "nft_masq_inet_eval",
        "nft_nat_eval",
        "nft_nat_inet_eval",
        "nft_redir_eval",
        "nft_redir_ipv4_eval",
        "nft_redir_ipv6_eval",
        "nft_redir_inet_eval",
    ],
};

/// The functions that are probed, where the kernel has them.
fn target_functions() -> BTreeSet<&'static str> {
    let all = XT.functions.iter().chain(NFT.functions);
    all.copied().collect()
}

impl Programs {
    /// Attaches the probes on those NAT targets that this kernel has now, by what `present` says of the
    /// functions that it is asked for; that takes time, and is not asked where there are no probes.
    /// What cannot be observed is noted in [`Attached::unavailable`](super::Attached::unavailable).
    pub fn observe_targets(
        &mut self,
        layout: &RuleLayout,
        present: impl FnOnce(&BTreeSet<&'static str>) -> Result<BTreeSet<&'static str>, String>,
    ) {
        let present = match features::kprobes().and_then(|_| present(&target_functions())) {
            Ok(present) => present,
            Err(why) => return self.lacks("kprobe", why),
        };
        let wanted = [
            (&XT, layout.finds_legacy() || layout.finds_compat()),
            (&NFT, layout.finds_nft()),
        ];
        if let Err(error) = self.load_search() {
            return self.lacks("kprobe", error.to_string());
        }
        for (target, layout_known) in wanted {
            let here = target.functions.iter().filter(|f| present.contains(**f));
            let here: Vec<&'static str> = here.copied().collect();
            // No such function: no rule of that kind can be there.
            if here.is_empty() {
                continue;
            }
            if !layout_known {
                let why = "this kernel's BTF does not describe its rule stores";
                self.lacks(target.what, why.to_owned());
                continue;
            }
            if let Err(error) = self.attach_target(target, &here) {
                self.lacks(target.what, error.to_string());
            }
        }
    }

    /// Loads the program in which every search goes on.
    fn load_search(&mut self) -> Result<(), KernelError> {
        let refused = |source| KernelError::Program {
            program: SEARCH,
            source: Box::new(source),
        };
        let search = kprobe(&mut self.ebpf, SEARCH)?;
        search.load().map_err(refused)?;
        let search = search.fd().map_err(refused)?.try_clone();
        let search = search.map_err(|error| refused(ProgramError::IOError(error)))?;
        let failed = |source| KernelError::Map {
            map: NEXT,
            source: Box::new(source),
        };
        let mut next = ProgramArray::try_from(named(&mut self.ebpf, NEXT)?).map_err(failed)?;
        next.set(0, &search, 0).map_err(failed)
    }

    fn attach_target(&mut self, target: &Target, here: &[&str]) -> Result<(), KernelError> {
        let probe = kprobe(&mut self.ebpf, target.program)?;
        probe.load().map_err(|source| KernelError::Program {
            program: target.program,
            source: Box::new(source),
        })?;
        for function in here {
            probe
                .attach(function, 0)
                .map_err(|source| attach_error(&format!("function {function}"), source))?;
            self.attached.kprobes += 1;
        }
        Ok(())
    }

    fn lacks(&mut self, what: &str, why: String) {
        let row = (what.to_owned(), why, EFFECT.to_owned());
        self.attached.unavailable.push(row);
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
        programs.load_search().unwrap();
        println!("search: {:?}", start.elapsed());
        for target in [&XT, &NFT] {
            let start = Instant::now();
            let probe = kprobe(&mut programs.ebpf, target.program).unwrap();
            probe.load().unwrap();
            println!("{}: {:?}", target.program, start.elapsed());
            println!("{:?}", probe.info().unwrap().verified_instruction_count());
        }
    }
}
