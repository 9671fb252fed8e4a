//! The order in which a packet meets base chains, and conntrack and NAT between them.
//!
//! Base chains of a hook run by priority; of equal ones the newest first (net/netfilter/core.c,
//! `nf_hook_entries_grow`; measured on 6.18). Chains of type nat are not hooked themselves: one
//! NAT hook of fixed priority runs them in that order until one has set a mapping
//! (net/netfilter/nf_nat_core.c, `nf_nat_register_fn`), whatever priority the chains name.

use super::bits::Truth;
use super::index::{BaseAt, Rules};
use super::nat::{bound, translate};
use super::outcome::Fate;
use super::packet::{FlowState, Packet, Ports};
use super::walk::{Log, Walk};
use super::world::{Ghost, Tracking, World, merge};
use crate::inventory::Namespace;
use crate::ruleset::{ChainKind, Hook};

/// `NF_IP_PRI_CONNTRACK`.
const CONNTRACK: i32 = -200;
/// `NF_IP_PRI_NAT_DST`, of prerouting and output.
const NAT_DST: i32 = -100;
/// `NF_IP_PRI_NAT_SRC`, of postrouting and input.
const NAT_SRC: i32 = 100;
/// `NF_IP_PRI_NAT_SRC - 1`, from which on IPVS takes what would be delivered (net/netfilter/ipvs/ip_vs_core.c,
/// `ip_vs_ops4`): chains of INPUT at this priority and later do not see it.
const IPVS: i32 = NAT_SRC - 1;
/// Orders that are tried where it is not known in which chains of equal priority run, at most.
const MAX_ORDERS: usize = 12;

/// A packet on its way through a namespace's hooks.
pub(super) struct Passage<'w, 'r> {
    pub(super) rules: &'w Rules<'r>,
    pub(super) packet: &'w Packet,
    pub(super) here: &'w Namespace,
    pub(super) log: Log<'r>,
    /// Worlds that came to an end before the last hook.
    pub(super) ended: Vec<World<'r>>,
}

/// What runs at one priority of a hook.
enum Stage<'w, 'r> {
    Conntrack,
    Nat(Vec<BaseAt<'w, 'r>>),
    Chain(BaseAt<'w, 'r>),
}

impl<'w, 'r> Passage<'w, 'r> {
    /// All chains of one hook; returns the worlds that passed.
    pub(super) fn hook(&mut self, hook: Hook, worlds: Vec<World<'r>>) -> Vec<World<'r>> {
        let mut bases = self.rules.bases(hook, self.packet.version());
        bases.retain(|base| self.on_device(hook, base));
        let orders = self.orders(bases);
        let several = orders.len() > 1;
        let mut passed = Vec::new();
        for order in &orders {
            let mut worlds = worlds.clone();
            if several {
                let names: Vec<String> = order.iter().map(BaseAt::name).collect();
                let text = format!("the order of registration ({})", names.join(", then "));
                worlds = worlds
                    .into_iter()
                    .map(|w| w.assuming(&text, true))
                    .collect();
            }
            passed.extend(self.order(hook, order, worlds));
        }
        if hook == Hook::Prerouting {
            passed.iter_mut().for_each(World::chooses_way);
        }
        merge(passed)
    }

    /// Device chains run only for their devices.
    fn on_device(&self, hook: Hook, base: &BaseAt<'_, '_>) -> bool {
        let name = match (hook, &self.packet.ports) {
            (Hook::Ingress, Ports::Through { from, .. }) => Some(from),
            (Hook::Egress, Ports::Through { to, .. }) => Some(to),
            (Hook::Ingress, _) => self.packet.iif.as_ref(),
            (Hook::Egress, _) => self.packet.oif.as_ref(),
            _ => return true,
        };
        let devices = &base.base.devices;
        let listed = |name: &String| {
            let like = |device: &String| match device.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => device == name,
            };
            devices.iter().any(like)
        };
        name.is_none_or(listed)
    }

    /// The chains by priority, in every order of registration that is possible.
    fn orders(&mut self, mut bases: Vec<BaseAt<'w, 'r>>) -> Vec<Vec<BaseAt<'w, 'r>>> {
        bases.sort_by_key(|base| {
            let newest_first = base.base.registered.map(std::cmp::Reverse);
            (base.base.priority, newest_first)
        });
        let groups =
            bases.chunk_by(|a, b| a.base.priority == b.base.priority && a.is_nat() == b.is_nat());
        let mut orders: Vec<Vec<BaseAt<'w, 'r>>> = vec![Vec::new()];
        for group in groups {
            let known = group.iter().all(|base| base.base.registered.is_some());
            let several: usize = (1..=group.len()).fold(orders.len(), usize::saturating_mul);
            if known || group.len() < 2 {
                orders.iter_mut().for_each(|order| order.extend(group));
            } else if several <= MAX_ORDERS {
                orders = permutations(group)
                    .into_iter()
                    .flat_map(|p| orders.iter().map(move |o| [o.as_slice(), &p].concat()))
                    .collect();
            } else {
                self.log.doubt(format!(
                    "the order of registration of {} chains at priority {}",
                    group.len(),
                    group.first().map_or(0, |base| base.base.priority)
                ));
                orders.iter_mut().for_each(|order| order.extend(group));
            }
        }
        orders
    }

    fn order(
        &mut self,
        hook: Hook,
        order: &[BaseAt<'w, 'r>],
        mut worlds: Vec<World<'r>>,
    ) -> Vec<World<'r>> {
        let taken = self.packet.balanced.filter(|_| hook == Hook::Input);
        let until = taken.map(|_| IPVS);
        for stage in stages(hook, order, until) {
            let mut next = Vec::new();
            for world in worlds {
                match &stage {
                    Stage::Conntrack => next.push(self.conntrack(world)),
                    Stage::Nat(chains) => next.extend(self.nat(hook, chains, world)),
                    Stage::Chain(base) => next.extend(self.base(hook, *base, world)),
                }
            }
            worlds = merge(next);
        }
        if let Some(to) = taken {
            worlds.iter_mut().for_each(|world| world.sent_on(to));
        }
        worlds
    }

    /// Conntrack looks at the packet, unless a rule said not to, or none asked for it.
    fn conntrack(&self, mut world: World<'r>) -> World<'r> {
        let known = matches!(
            world.state.flow,
            FlowState::Established | FlowState::Related
        );
        let on = known || self.rules.tracks(self.packet.version());
        if on && world.state.tracking == Tracking::NotYet {
            world.state.tracking = Tracking::Tracked;
            world.changed();
        }
        world
    }

    /// One base chain; what it drops has come to its end.
    fn base(&mut self, hook: Hook, base: BaseAt<'w, 'r>, world: World<'r>) -> Vec<World<'r>> {
        let walk = Walk {
            rules: self.rules,
            packet: self.packet,
            here: self.here,
            hook,
            base,
            log: &mut self.log,
            path: Vec::new(),
            done: Vec::new(),
        };
        let reroutes = hook == Hook::Output && base.base.kind == ChainKind::Route;
        let before = (world.state.mark, world.state.dst);
        let mut passed = Vec::new();
        for mut world in walk.run(world) {
            if reroutes && before != (world.state.mark, world.state.dst) {
                world.chooses_way();
            }
            match world.exit.take() {
                None | Some(Fate::Passes) => passed.push(world),
                stopped => {
                    world.exit = stopped;
                    self.ended.push(world);
                }
            }
        }
        merge(passed)
    }

    /// The NAT hook: only for a flow's first packet, and once for source and destination each.
    fn nat(&mut self, hook: Hook, chains: &[BaseAt<'w, 'r>], world: World<'r>) -> Vec<World<'r>> {
        let source = matches!(hook, Hook::Postrouting | Hook::Input);
        let kept = world.state.kept.len();
        let (asks, mut out) = self.consulting(world, source);
        for old in &mut out {
            bound(old, &self.packet.flow, source);
        }
        let mut worlds: Vec<World<'r>> = asks.into_iter().collect();
        for base in chains {
            let mut next = Vec::new();
            for world in worlds {
                match world.decision(source).map(|decision| decision.by) {
                    Some(by) => {
                        let mut ghost = world.clone();
                        ghost.ghost = Ghost::After(by);
                        self.base(hook, *base, ghost);
                        next.push(world);
                    }
                    None => next.extend(self.base(hook, *base, world)),
                }
            }
            worlds = merge(next);
        }
        for mut world in worlds {
            if world.decision(source).is_some() {
                world.state.kept.truncate(kept); // from which it was not kept in the end
            }
            let before = world.state.dst;
            translate(&mut world, source);
            if hook == Hook::Output && before != world.state.dst {
                world.chooses_way();
            }
            if let Some(settled) = world.state.settled.get_mut(usize::from(source)) {
                *settled = true;
            }
            out.push(world);
        }
        merge(out)
    }

    /// The world that consults NAT chains, and those that do not. A flow whose state is not known
    /// may do either.
    fn consulting(
        &self,
        mut world: World<'r>,
        source: bool,
    ) -> (Option<World<'r>>, Vec<World<'r>>) {
        let settled = world.state.settled.get(usize::from(source)) == Some(&true);
        let icmp_error =
            world.state.flow == FlowState::Related && self.packet.tuple.proto.is_icmp();
        let first = match world.state.flow {
            FlowState::New => Truth::Yes,
            FlowState::Related if !icmp_error => Truth::Yes,
            FlowState::Unknown => Truth::Unknown,
            _ => Truth::No,
        };
        match (first, world.has_entry() && !settled) {
            (Truth::No, _) | (_, false) => (None, vec![world]),
            (Truth::Yes, true) => (Some(world), Vec::new()),
            (Truth::Unknown, true) => {
                let text = "the flow is new";
                let mut old = world.clone().assuming(text, false);
                old.state.flow = FlowState::Established;
                world.state.flow = FlowState::New;
                (Some(world.assuming(text, true)), vec![old])
            }
        }
    }
}

/// What runs at a hook, in order; where it is taken away from there, before that priority.
fn stages<'w, 'r>(hook: Hook, order: &[BaseAt<'w, 'r>], until: Option<i32>) -> Vec<Stage<'w, 'r>> {
    let nat: Vec<BaseAt<'w, 'r>> = order.iter().copied().filter(BaseAt::is_nat).collect();
    let at = match hook {
        Hook::Postrouting | Hook::Input => NAT_SRC,
        _ => NAT_DST,
    };
    let others = order.iter().filter(|base| !base.is_nat());
    let mut stages: Vec<(i32, Stage<'w, 'r>)> = others
        .map(|base| (base.base.priority, Stage::Chain(*base)))
        .collect();
    if matches!(hook, Hook::Prerouting | Hook::Output) {
        stages.push((CONNTRACK, Stage::Conntrack));
    }
    if matches!(
        hook,
        Hook::Prerouting | Hook::Output | Hook::Postrouting | Hook::Input
    ) {
        stages.push((at, Stage::Nat(nat)));
    }
    stages.retain(|(priority, _)| until.is_none_or(|end| *priority < end));
    stages.sort_by_key(|(priority, _)| *priority);
    stages.into_iter().map(|(_, stage)| stage).collect()
}

/// Every order of a few chains.
fn permutations<T: Copy>(items: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = items.split_first() else {
        return vec![Vec::new()];
    };
    let mut all = Vec::new();
    for shorter in permutations(rest) {
        for at in 0..=shorter.len() {
            let mut longer = shorter.clone();
            longer.insert(at, *first);
            all.push(longer);
        }
    }
    all
}
