//! The table of labs: what each shows, where it runs and what it needs.

mod agreed;
mod bridged;
mod captured;
mod changed;
mod config;
mod contained;
mod contract;
mod counts;
mod covers;
mod datapath;
mod debug_container;
mod denied;
mod drops;
mod elsewhere;
mod expectations;
mod explained;
mod field;
mod foretold;
mod forwarders;
mod gateways;
mod ground;
mod handed_over;
mod hostile;
mod job;
mod kubelet;
mod ladder;
mod leftovers;
mod links;
mod lockdown;
mod mapped;
mod meanwhile;
mod merged;
mod newborn;
mod observed;
mod options;
mod overlays;
mod passing;
mod pcap;
mod points;
mod protocols;
mod proxies;
mod readme;
mod recordings;
mod redirects;
mod refusals;
mod replayed;
mod replies;
mod reply;
mod reschedule;
mod rewriters;
mod service;
mod service_nft;
mod shapes;
mod steps;
mod unread;
mod vpn;

pub use covers::covers;
pub use foretold::told;

use anyhow::Result;

/// A kernel that labs run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The kernel of the machine itself.
    Native,
    /// Debian 11's, in a virtual machine.
    V5_10,
    /// Debian 12's, in a virtual machine.
    V6_1,
    /// Debian 13's, in a virtual machine.
    V6_12,
    /// The newest that Debian packages, in a virtual machine.
    V7,
}

impl Kernel {
    /// Its name in `SRCTRACE_LAB_KERNEL` and in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::V5_10 => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V7 => "7.x",
        }
    }

    /// The reverse of [`Kernel::name`].
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        EVERYWHERE
            .iter()
            .copied()
            .find(|kernel| kernel.name() == name)
    }
}

/// Every kernel.
pub const EVERYWHERE: &[Kernel] = &[
    Kernel::Native,
    Kernel::V5_10,
    Kernel::V6_1,
    Kernel::V6_12,
    Kernel::V7,
];
/// Only where the tests are started.
pub const NATIVE: &[Kernel] = &[Kernel::Native];

/// One lab.
#[derive(Debug)]
pub struct Case {
    /// Its name, unique.
    pub name: &'static str,
    /// The scenario rows that it shows.
    pub rows: &'static [&'static str],
    /// The kernels that it runs on.
    pub kernels: &'static [Kernel],
    /// Kernel modules that it needs besides veth and the netfilter base.
    pub needs: &'static [&'static str],
    /// Words that it needs on the kernel's command line. Only a virtual machine can be given them.
    pub boot: &'static str,
    /// Whether no other lab may run beside it.
    pub alone: bool,
    run: Run,
}

/// What a lab runs.
#[derive(Debug)]
enum Run {
    Function(fn() -> Result<()>),
    Story(&'static field::Story),
}

impl Case {
    /// A lab that runs everywhere, beside others, and needs nothing special.
    #[must_use]
    pub const fn new(
        name: &'static str,
        rows: &'static [&'static str],
        run: fn() -> Result<()>,
    ) -> Self {
        Self {
            name,
            rows,
            kernels: EVERYWHERE,
            needs: &[],
            boot: "",
            alone: false,
            run: Run::Function(run),
        }
    }

    /// A field case.
    fn of_story(story: &'static field::Story) -> Self {
        Self {
            name: story.name,
            rows: &[],
            kernels: story.kernels,
            needs: story.needs,
            boot: "",
            alone: false,
            run: Run::Story(story),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// When anything is not as it should be.
    pub fn run(&self) -> Result<()> {
        match self.run {
            Run::Function(run) => run(),
            Run::Story(story) => story.play(),
        }
    }

    /// Only on these kernels.
    #[must_use]
    pub const fn on(mut self, kernels: &'static [Kernel]) -> Self {
        self.kernels = kernels;
        self
    }

    /// With these kernel modules.
    #[must_use]
    pub const fn needs(mut self, modules: &'static [&'static str]) -> Self {
        self.needs = modules;
        self
    }

    /// On kernels that are booted with these words.
    #[must_use]
    pub const fn booted_with(mut self, words: &'static str) -> Self {
        self.boot = words;
        self
    }

    /// Not beside any other lab.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.alone = true;
        self
    }
}

/// All labs.
pub fn all() -> impl Iterator<Item = &'static Case> {
    early().into_iter().chain(late()).flatten()
}

/// The first part of the table, by name.
fn early() -> Vec<&'static [Case]> {
    vec![
        agreed::CASES,
        handed_over::CASES,
        gateways::CASES,
        forwarders::CASES,
        ground::CASES,
        captured::CASES,
        changed::CASES,
        contract::CASES,
        counts::CASES,
        debug_container::CASES,
        denied::CASES,
        drops::answers::CASES,
        drops::filter::CASES,
        drops::noise::CASES,
        drops::programs::CASES,
        drops::routing::CASES,
        drops::traced::CASES,
        elsewhere::CASES,
        expectations::CASES,
        hostile::CASES,
        job::CASES,
        kubelet::CASES,
        leftovers::CASES,
        leftovers::panics::CASES,
        bridged::CASES,
        links::CASES,
        lockdown::CASES,
        merged::CASES,
        newborn::CASES,
        observed::CASES,
        observed::acts::CASES,
        observed::marked::CASES,
        passing::CASES,
        pcap::CASES,
        points::CASES,
        meanwhile::CASES,
        options::CASES,
        overlays::CASES,
        protocols::CASES,
        proxies::CASES,
        contained::CASES,
        readme::CASES,
        recordings::CASES,
        redirects::CASES,
        refusals::CASES,
        service::CASES,
        service_nft::CASES,
        shapes::CASES,
    ]
}

/// The rest: those for other kernels stand last.
fn late() -> Vec<&'static [Case]> {
    vec![
        replayed::CASES,
        replies::CASES,
        reply::CASES,
        reschedule::CASES,
        rewriters::CASES,
        unread::CASES,
        field::cases(),
        vpn::CASES,
        drops::traced::PROBED_CASES,
        explained::CASES,
        datapath::CASES,
        mapped::CASES,
        overlays::VIRTUAL_CASES,
        proxies::CLSACT_CASES,
        config::CASES,
        ladder::CASES,
        ladder::client::CASES,
        ladder::far::CASES,
    ]
}
