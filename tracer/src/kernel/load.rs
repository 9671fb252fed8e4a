//! Loading the embedded object.

use super::doors::Doors;
use super::rules::RuleProbes;
use super::{Filter, KernelError, KernelTypes, Ring, drops, taps};
use aya::maps::lpm_trie::Key;
use aya::maps::{HashMap, LpmTrie};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use ipnet::IpNet;
use tracer_common::{
    ABI_VERSION, MAX_IGNORED_REASONS, NO_REASON, Offsets, PrefixKey, config_flags, prefix_key,
};
use zerocopy::IntoBytes;

/// The object that `cargo xtask build` made.
static OBJECT: &[u8] = include_bytes_aligned!(env!("SRCTRACE_EBPF_OBJECT"));

/// Size of the event ring, bytes: the kernel maps it twice, so it costs twice this in memory.
pub const RING_BYTES: u32 = 2 << 20;

/// How much the kernel half may remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The ring, bytes: a power of two.
    pub ring_bytes: u32,
    /// Tuples at taps.
    pub flows: u32,
    /// Learned tuples.
    pub learned: u32,
    /// Kinds of drops; zero: drops are not looked at.
    pub drops: u32,
}

impl Sizes {
    /// For a trace.
    pub const TRACE: Self = Self {
        ring_bytes: RING_BYTES,
        flows: 131_072,
        learned: 65_536,
        drops: 8192,
    };
    /// For a short look around.
    pub const GLANCE: Self = Self {
        ring_bytes: 1 << 18,
        flows: 4096,
        learned: 16,
        drops: 0,
    };
}

/// How the programs read packets.
#[derive(Clone, Copy, Debug)]
pub enum Reader<'a> {
    /// From the kernel's memory, where the kernel keeps things as its types say.
    Memory(&'a KernelTypes),
    /// Only by what traffic-control programs are shown: the kernel refuses to let its memory be
    /// read. There are no tracepoints then.
    Direct,
}

impl Reader<'_> {
    fn offsets(&self) -> Offsets {
        match self {
            Self::Memory(types) => types.offsets,
            Self::Direct => Offsets::DIRECT,
        }
    }

    /// Numbers of the drop reasons that are none.
    fn ignored(&self) -> [u32; MAX_IGNORED_REASONS] {
        match self {
            Self::Memory(types) => drops::ignored(&types.drop_reasons),
            Self::Direct => [NO_REASON; MAX_IGNORED_REASONS],
        }
    }

    /// Bits of [`config_flags`].
    fn flags(&self) -> u32 {
        match self {
            Self::Memory(types) if types.offsets.fit_window() => config_flags::SKB_WINDOW,
            Self::Memory(_) => 0,
            Self::Direct => config_flags::DIRECT,
        }
    }
}

/// The loaded kernel half. Everything it attached goes when it is dropped, or with the process.
pub struct Programs {
    pub(super) ebpf: Ebpf,
    pub(super) attached: taps::Attached,
    pub(super) doors: Doors,
    /// Whether traffic-control programs are reached through doors.
    pub(super) direct: bool,
    pub(super) tracepoints: Vec<taps::Tracepoint>,
    pub(super) rule_probes: RuleProbes,
}

impl Programs {
    /// Loads maps and the programs of tracepoints and doors; attaches nothing yet.
    ///
    /// # Errors
    /// When the kernel refuses a map or a program, or the object is of another build.
    pub fn load(
        filter: &Filter,
        reader: Reader<'_>,
        sizes: Sizes,
    ) -> Result<(Self, Ring), KernelError> {
        let (mut programs, ring) = Self::bare(filter, reader, sizes)?;
        match reader {
            Reader::Memory(types) => {
                if sizes.drops > 0 {
                    programs.tracepoints.extend(drops::tap(types));
                }
                programs.load_tracepoints()?;
            }
            Reader::Direct => programs.load_direct()?,
        }
        Ok((programs, ring))
    }

    /// Loads the maps only: programs are loaded when they are attached.
    ///
    /// # Errors
    /// When the kernel refuses a map, or the object is of another build.
    pub fn bare(
        filter: &Filter,
        reader: Reader<'_>,
        sizes: Sizes,
    ) -> Result<(Self, Ring), KernelError> {
        let mut config = filter.config();
        config.flags |= reader.flags();
        let offsets = reader.offsets();
        let ignored = reader.ignored();
        let mut ebpf = EbpfLoader::new()
            .btf(None) // no relocations: offsets are ours, and aya's copy of the BTF is large
            .override_global("OFFSETS", offsets.as_bytes(), true)
            .override_global("CONFIG", config.as_bytes(), true)
            .override_global("IGNORED", ignored.as_bytes(), true)
            .override_global("ABI", ABI_VERSION.as_bytes(), true)
            .map_max_entries("EVENTS", sizes.ring_bytes)
            .map_max_entries("FLOWS", sizes.flows)
            .map_max_entries("LEARNED", sizes.learned)
            .map_max_entries("DROPS", sizes.drops.max(1))
            .load(OBJECT)
            .map_err(|e| KernelError::Load(Box::new(e)))?;
        fill_filter(&mut ebpf, filter)?;
        let ring = Ring::take(&mut ebpf)?;
        let programs = Self {
            ebpf,
            attached: taps::Attached::default(),
            doors: Doors::default(),
            direct: matches!(reader, Reader::Direct),
            tracepoints: taps::TRACEPOINTS.to_vec(),
            rule_probes: RuleProbes::default(),
        };
        Ok((programs, ring))
    }
}

fn fill_filter(ebpf: &mut Ebpf, filter: &Filter) -> Result<(), KernelError> {
    let sources: Vec<_> = filter.sources.iter().map(|net| (*net, 0)).collect();
    fill_trie(ebpf, "DESTS", &filter.destinations())?;
    fill_trie(ebpf, "SOURCES", &sources)?;
    let failed = |source| KernelError::Map {
        map: "SCOPE",
        source: Box::new(source),
    };
    let mut scope: HashMap<_, u32, u32> =
        HashMap::try_from(named(ebpf, "SCOPE")?).map_err(failed)?;
    for netns in filter.scope.iter().flatten() {
        scope.insert(netns, 1, 0).map_err(failed)?;
    }
    Ok(())
}

fn fill_trie(
    ebpf: &mut Ebpf,
    map: &'static str,
    prefixes: &[(IpNet, u32)],
) -> Result<(), KernelError> {
    let failed = |source| KernelError::Map {
        map,
        source: Box::new(source),
    };
    let mut trie: LpmTrie<_, [u8; size_of::<PrefixKey>()], u32> =
        LpmTrie::try_from(named(ebpf, map)?).map_err(failed)?;
    for (net, value) in prefixes {
        let (bits, key) = prefix_key(net.network(), net.prefix_len());
        let mut data = [0; size_of::<PrefixKey>()];
        data.copy_from_slice(key.as_bytes());
        trie.insert(&Key::new(bits, data), value, 0)
            .map_err(failed)?;
    }
    Ok(())
}

/// A map of the object by name.
pub(super) fn named<'a>(
    ebpf: &'a mut Ebpf,
    map: &'static str,
) -> Result<&'a mut aya::maps::Map, KernelError> {
    ebpf.map_mut(map)
        .ok_or_else(|| KernelError::ForeignObject(format!("no map {map}")))
}
