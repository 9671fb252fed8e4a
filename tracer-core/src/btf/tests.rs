//! Hand-made BTF, whole answers.

use super::fixture::Writer;
use super::{Btf, BtfError, Enumerator, Field, Layout, Parameter, Prototype, Shape, TypeId};
use proptest::prelude::*;

/// `struct packet { u32 len; union { struct { u16 proto; const tci_t tci; }; u32 all; };
/// u8 flag:1, kind:3; struct pair hash[2]; }` with `struct pair { u32 pad; u32 *at; }`.
fn packet() -> Writer {
    let mut w = Writer::new();
    let byte = w.int("u8", 1);
    let short = w.int("u16", 2);
    let word = w.int("u32", 4);
    let tci = w.wrap(8, "tci_t", short);
    let tci = w.wrap(10, "", tci);
    let tag = w.aggregate(4, "", 4, &[("proto", short, 0, 0), ("tci", tci, 16, 0)]);
    let either = w.aggregate(5, "", 4, &[("", tag, 0, 0), ("all", word, 0, 0)]);
    let tagged = w.wrap(18, "rcu", word);
    let pointer = w.wrap(2, "", tagged);
    let pair = w.aggregate(
        4,
        "pair",
        16,
        &[("pad", word, 0, 0), ("at", pointer, 64, 0)],
    );
    let hash = w.array(pair, 2);
    w.aggregate(
        4,
        "packet",
        48,
        &[
            ("len", word, 0, 0),
            ("", either, 32, 0),
            ("flag", byte, 64, 1),
            ("kind", byte, 65, 3),
            ("hash", hash, 128, 0),
        ],
    );
    w
}

fn place(btf: &Btf<'_>, name: &str, path: &str) -> (u32, u64, bool) {
    let Field {
        bit_offset,
        bits,
        is_bitfield,
        ..
    } = btf.field(name, path).unwrap();
    (bit_offset, bits, is_bitfield)
}

#[test]
fn members_are_found_as_in_c() {
    let bytes = packet().bytes();
    let btf = Btf::parse(&bytes).unwrap();
    let paths = [
        "len",
        "proto",
        "tci",
        "all",
        "flag",
        "kind",
        "hash",
        "hash[1]",
        "hash[1].at",
    ];
    let found: Vec<_> = paths
        .iter()
        .map(|path| place(&btf, "packet", path))
        .collect();
    assert_eq!(
        found,
        [
            (0, 32, false),
            (32, 16, false),
            (48, 16, false),
            (32, 32, false),
            (64, 1, true),
            (65, 3, true),
            (128, 256, false),
            (256, 128, false),
            (320, 64, false),
        ]
    );
    assert_eq!(btf.field("packet", "flag").unwrap().byte_offset(), None);
    let at = btf.field("packet", "hash[1].at").unwrap();
    assert_eq!((at.byte_offset(), at.byte_size()), (Some(40), Some(8)));
    let Shape::Pointer(target) = btf.shape(at.ty).unwrap() else {
        panic!("no pointer")
    };
    assert_eq!(btf.shape(target), Ok(Shape::Int { signed: false }));
    assert_eq!(btf.name(btf.strip(target).unwrap()), Ok("u32"));
}

#[test]
fn what_is_not_there_is_said() {
    let bytes = packet().bytes();
    let btf = Btf::parse(&bytes).unwrap();
    let error = |name, path| btf.field(name, path).unwrap_err().to_string();
    assert_eq!(error("sk_buff", "len"), "BTF has no struct sk_buff");
    assert_eq!(error("packet", "mark"), "packet has no member mark");
    assert_eq!(error("packet", "len.x"), "packet has no member x");
    assert_eq!(error("packet", "hash[2]"), "packet has no member [2]");
    assert_eq!(error("packet", "hash[1].at.x"), "packet has no member x");
    for path in [
        "",
        ".",
        "a.",
        "a[",
        "a[]",
        "a[-1]",
        "a[1",
        "a[1]b",
        "a[99999999999]",
        "a b",
    ] {
        assert_eq!(
            btf.field("packet", path),
            Err(BtfError::BadPath(path.to_owned()))
        );
    }
}

#[test]
fn the_old_encoding_of_bit_fields() {
    let mut w = Writer::new();
    // One bit of a byte, two bits into it.
    let bit = w.add(1, false, "u8", 1, 0, &[2 << 16 | 1]);
    w.aggregate(4, "old", 2, &[("present", bit, 8, 0)]);
    let bytes = w.bytes();
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(place(&btf, "old", "present"), (10, 1, true));
}

#[test]
fn a_modules_types_continue_the_kernels() {
    let mut base = Writer::new();
    let word = base.int("unsigned int", 4);
    base.add(7, false, "nf_conn", 0, 0, &[]);
    let mut module = Writer::split(&base);
    let local = module.wrap(8, "mark_t", word);
    module.aggregate(
        4,
        "nf_conn",
        16,
        &[("use", word, 0, 0), ("mark", local, 96, 0)],
    );
    let (base, module) = (base.bytes(), module.bytes());
    let base = Btf::parse(&base).unwrap();
    let module = Btf::parse_split(&base, &module).unwrap();
    assert_eq!((base.type_count(), module.type_count()), (3, 5));
    base.structure("nf_conn").unwrap_err();
    assert_eq!(module.structure("nf_conn"), Ok(TypeId(4)));
    let mark = module.field("nf_conn", "mark").unwrap();
    assert_eq!((mark.byte_offset(), mark.ty), (Some(12), TypeId(3)));
    assert_eq!(
        module.name(module.strip(mark.ty).unwrap()),
        Ok("unsigned int")
    );
}

#[test]
fn enumerators_and_prototypes_are_told_whole() {
    let mut w = Writer::new();
    let skb = w.add(7, false, "sk_buff", 0, 0, &[]);
    let skb = w.wrap(2, "", skb);
    w.enumeration(6, false, "reason", &[("NONE", 0), ("HIGH", 0xffff_ffff)]);
    w.enumeration(6, true, "sign", &[("MINUS", -1)]);
    w.enumeration(19, false, "wide", &[("ALL", -1), ("BIT", 1 << 40)]);
    w.enumeration(19, true, "wide_sign", &[("MINUS", -2)]);
    let proto = w.prototype(TypeId(0), &[("", TypeId(0)), ("skb", skb)]);
    w.wrap(12, "kfree_skb", proto);
    let pointer = w.wrap(2, "", proto);
    w.wrap(8, "btf_trace_kfree_skb", pointer);
    let bytes = w.bytes();
    let btf = Btf::parse(&bytes).unwrap();
    let all = |name| btf.enumerators(name).unwrap();
    let one = |name, value| Enumerator { name, value };
    assert_eq!(all("reason"), [one("NONE", 0), one("HIGH", 0xffff_ffff)]);
    assert_eq!(all("sign"), [one("MINUS", -1)]);
    assert_eq!(
        all("wide"),
        [one("ALL", u64::MAX.into()), one("BIT", 1 << 40)]
    );
    assert_eq!(all("wide_sign"), [one("MINUS", -2)]);
    let parameters = vec![
        Parameter {
            name: "",
            ty: TypeId(0),
        },
        Parameter {
            name: "skb",
            ty: skb,
        },
    ];
    let expected = Prototype {
        parameters,
        result: TypeId(0),
    };
    assert_eq!(btf.prototype("kfree_skb"), Ok(expected.clone()));
    assert_eq!(btf.prototype("btf_trace_kfree_skb"), Ok(expected));
    assert!(btf.prototype("reason").is_err());
}

#[test]
fn endless_and_exploding_types_are_refused() {
    let mut w = Writer::new();
    w.wrap(8, "loop", TypeId(1));
    w.aggregate(4, "own", 8, &[("", TypeId(2), 0, 0)]);
    w.array(TypeId(3), 2);
    w.aggregate(4, "arrays", 8, &[("a", TypeId(3), 0, 0)]);
    // Each level names the next a thousand times: a million million members.
    let first = 5;
    for level in 0..6 {
        let inner: Vec<_> = (0..1000)
            .map(|_| ("", TypeId(first + level + 1), 0, 0))
            .collect();
        w.aggregate(4, if level == 0 { "wide" } else { "" }, 8, &inner);
    }
    w.int("end", 4);
    let bytes = w.bytes();
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(btf.strip(TypeId(1)), Err(BtfError::TooComplex(1)));
    assert!(matches!(
        btf.field("own", "x"),
        Err(BtfError::TooComplex(2))
    ));
    assert!(matches!(
        btf.field("arrays", "a"),
        Err(BtfError::TooComplex(3))
    ));
    assert!(matches!(
        btf.field("wide", "x"),
        Err(BtfError::TooComplex(_))
    ));
}

#[test]
fn damage_is_named() {
    let bytes = packet().bytes();
    assert_eq!(
        Btf::parse(b"").unwrap_err(),
        BtfError::Truncated { what: "the header" }
    );
    assert_eq!(Btf::parse(&[0; 64]).unwrap_err(), BtfError::NotBtf);
    for len in 0..bytes.len() {
        Btf::parse(&bytes[..len]).unwrap_err();
    }
    let mut w = Writer::new();
    w.int("int", 4);
    w.add(77, false, "", 0, 0, &[]);
    let error = Btf::parse(&w.bytes()).unwrap_err();
    assert_eq!(error, BtfError::UnknownKind { id: 2, kind: 77 });
}

/// Every question that a hostile file may answer.
fn ask_everything(bytes: &[u8], base: Option<&Btf<'_>>) {
    let parsed = base.map_or_else(|| Btf::parse(bytes), |base| Btf::parse_split(base, bytes));
    let Ok(btf) = parsed else { return };
    for id in (0..btf.type_count().min(200)).map(TypeId) {
        let _ = (btf.name(id), btf.strip(id), btf.shape(id), btf.size(id));
    }
    for path in ["len", "proto", "kind", "hash[1].at", "nothing"] {
        let _ = btf.field("packet", path);
    }
    let _ = (btf.enumerators("reason"), btf.prototype("kfree_skb"));
    let _ = Layout::resolve(&[&btf]);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        ask_everything(&bytes, None);
    }

    #[test]
    fn any_damage_is_survived(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<proptest::sample::Index>(),
    ) {
        let whole = packet().bytes();
        let base = Btf::parse(&whole).unwrap();
        let mut bytes = whole.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        ask_everything(&bytes, None);
        ask_everything(&bytes, Some(&base));
        bytes.truncate(cut.index(bytes.len()) + 1);
        ask_everything(&bytes, None);
    }
}
