//! The inventory against real namespaces.

use super::*;
use crate::system::Watch;
use crate::system::testing::TestNetns;
use std::path::Path;
use tracer_core::inventory::{Link, Role, Route};

/// What a change may take to be known: the promise is 200 ms; a loaded test machine gets more.
const DEADLINE: Duration = Duration::from_secs(5);

struct Lab {
    node: TestNetns,
    pods: Vec<TestNetns>,
}

impl Lab {
    /// A node with pods that all have the same device index and, per pair, the same two indexes.
    fn new(pods: usize) -> Self {
        let lab = Self {
            node: TestNetns::new("node"),
            pods: (0..pods).map(|_| TestNetns::new("pod")).collect(),
        };
        for n in 0..pods {
            lab.connect(n);
        }
        lab
    }

    fn connect(&self, n: usize) {
        let (pod, gateway) = (&self.pods[n], format!("10.77.{n}.1"));
        pod.tie("eth0", &self.node, &format!("veth{n}"));
        pod.ip(&format!("addr add 10.77.{n}.10/24 dev eth0"));
        self.node.ip(&format!("addr add {gateway}/24 dev veth{n}"));
        pod.ip(&format!("route add default via {gateway}"));
    }

    fn node(&self) -> Netns {
        Netns::at(Path::new(&format!("/run/netns/{}", self.node.0))).unwrap()
    }

    fn ids(&self) -> BTreeSet<NetnsId> {
        self.pods
            .iter()
            .chain([&self.node])
            .map(TestNetns::id)
            .collect()
    }

    fn survey(&self) -> Survey {
        Survey::take(&Roots::default(), &self.node(), Scope::Only(self.ids())).unwrap()
    }
}

fn index(survey: &Survey, id: NetnsId, name: &str) -> u32 {
    let links = &survey.inventory().namespaces[&id].links;
    *links.iter().find(|(_, l)| l.name == name).expect(name).0
}

fn link<'a>(survey: &'a Survey, id: NetnsId, name: &str) -> &'a Link {
    survey
        .inventory()
        .link(id, index(survey, id, name))
        .unwrap()
}

#[test]
fn links_addresses_routes_peers_and_roles() {
    let lab = Lab::new(2);
    lab.pods[0].forward(true);
    lab.pods[1].forward(false);
    let survey = lab.survey();
    let inventory = survey.inventory();
    let forwards = |n: usize| inventory.namespaces[&lab.pods[n].id()].forwards;
    assert_eq!([forwards(0), forwards(1)], [Some(true), Some(false)]);
    let (node, pod) = (lab.node.id(), lab.pods[1].id());
    assert_eq!(
        inventory
            .namespaces
            .keys()
            .copied()
            .collect::<BTreeSet<_>>(),
        lab.ids()
    );
    assert_eq!(inventory.name(pod), Some(lab.pods[1].0.as_str()));
    let eth0 = link(&survey, pod, "eth0").clone();
    let v4: Vec<_> = eth0
        .addrs
        .iter()
        .filter(|a| a.addr().is_ipv4())
        .copied()
        .collect();
    assert_eq!(v4, ["10.77.1.10/24".parse().unwrap()]);
    assert_eq!(
        Link {
            addrs: Vec::new(),
            ..eth0
        },
        Link {
            name: "eth0".into(),
            kind: "veth".into(),
            peer: Some((node, index(&survey, node, "veth1"))),
            mtu: 1500,
            up: true,
            ..Link::default()
        }
    );
    let veth1 = link(&survey, node, "veth1");
    assert_eq!(veth1.peer, Some((pod, index(&survey, pod, "eth0"))));
    let default = Route {
        to: "0.0.0.0/0".parse().unwrap(),
        via: Some("10.77.1.1".parse().unwrap()),
        ifindex: index(&survey, pod, "eth0"),
    };
    assert!(inventory.namespaces[&pod].routes.contains(&default));
    assert!(link(&survey, node, "lo").loopback);
    assert_eq!(inventory.role(node), Role::Node);
    assert_eq!(inventory.role(pod), Role::Pod);
}

#[test]
fn peers_among_pods_with_equal_indexes_are_not_mixed_up() {
    let lab = Lab::new(4);
    for (a, b) in [(0, 1), (2, 3)] {
        lab.pods[a].tie("side", &lab.pods[b], "side");
    }
    let survey = lab.survey();
    for (a, b) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
        let (here, there) = (lab.pods[a].id(), lab.pods[b].id());
        let peer = link(&survey, here, "side").peer;
        assert_eq!(
            peer,
            Some((there, index(&survey, there, "side"))),
            "{a} and {b}"
        );
    }
}

#[test]
fn kinds_masters_and_what_lies_below() {
    let lab = Lab::new(0);
    let ns = &lab.node;
    ns.ip("link add br0 type bridge");
    ns.ip("link add va type veth peer name vb");
    ns.ip("link set va master br0");
    ns.ip("link add vx type vxlan id 7 dev va dstport 4789");
    ns.ip("link add mv link vb type macvlan");
    ns.ip("tuntap add t0 mode tun");
    let survey = lab.survey();
    let id = ns.id();
    let kind = |name: &str| link(&survey, id, name).kind.clone();
    let kinds = ["br0", "va", "vx", "mv", "t0", "lo"].map(kind);
    assert_eq!(kinds, ["bridge", "veth", "vxlan", "macvlan", "tun", ""]);
    assert_eq!(
        link(&survey, id, "va").master,
        Some(index(&survey, id, "br0"))
    );
    assert_eq!(
        link(&survey, id, "va").peer,
        Some((id, index(&survey, id, "vb")))
    );
    assert_eq!(
        link(&survey, id, "mv").lower,
        Some(index(&survey, id, "vb"))
    );
    assert_eq!(
        link(&survey, id, "vx").lower,
        Some(index(&survey, id, "va"))
    );
}

/// Takes changes until a condition holds of the survey and of all that was told so far.
async fn until(
    watch: &mut Watch,
    survey: &mut Survey,
    what: &str,
    holds: impl Fn(&Survey, &Delta) -> bool,
) {
    let mut told = Delta::default();
    let wait = async {
        while !holds(survey, &told) {
            let changed = watch.changed().await.unwrap();
            let delta = survey.refresh(&changed);
            told.added.extend(delta.added);
            told.updated.extend(delta.updated);
            told.removed.extend(delta.removed);
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.expect(what);
}

/// Whether a namespace has a device of that name, as far as is known.
fn has(survey: &Survey, id: NetnsId, name: &str) -> bool {
    let links = survey.inventory().namespaces.get(&id).map(|ns| &ns.links);
    links.is_some_and(|links| links.values().any(|l| l.name == name))
}

#[tokio::test(flavor = "current_thread")]
async fn what_comes_and_goes_is_heard_of() {
    let roots = Roots::default();
    let lab = Lab::new(1);
    let mut watch = Watch::start(&roots, &lab.node()).unwrap();
    assert!(watch.hears_all());
    let mut survey = Survey::take(&roots, &lab.node(), Scope::All).unwrap();
    let node = lab.node.id();

    let late = TestNetns::new("late");
    let id = late.id();
    let named = |s: &Survey, d: &Delta| d.added.contains(&id) && s.inventory().name(id).is_some();
    until(&mut watch, &mut survey, "a new name", named).await;

    late.tie("eth0", &lab.node, "veth-late");
    late.ip("addr add 10.88.0.2/24 dev eth0");
    let owned = |s: &Survey, _: &Delta| s.inventory().owns(id, "10.88.0.2".parse().unwrap());
    until(&mut watch, &mut survey, "an address in it", owned).await;
    let peer = link(&survey, node, "veth-late").peer;
    assert_eq!(peer, Some((id, index(&survey, id, "eth0"))));

    late.ip("route add default via 10.88.0.1");
    let routed = |s: &Survey, _: &Delta| {
        let routes = &s.inventory().namespaces[&id].routes;
        routes.iter().any(|r| r.via.is_some())
    };
    until(&mut watch, &mut survey, "its route", routed).await;

    let name = late.0.clone();
    drop(late);
    let gone = |s: &Survey, d: &Delta| d.removed.contains(&id) && !has(s, node, "veth-late");
    until(
        &mut watch,
        &mut survey,
        "its end, and the veth's: nothing holds it",
        gone,
    )
    .await;
    assert_eq!(
        survey.inventory().name(id),
        Some(name.as_str()),
        "remembered for a while"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn a_namespace_made_anew_under_its_old_name_is_another() {
    let roots = Roots::default();
    let lab = Lab::new(1);
    let mut watch = Watch::start(&roots, &lab.node()).unwrap();
    let mut survey = Survey::take(&roots, &lab.node(), Scope::All).unwrap();
    let pod = &lab.pods[0];
    let node = lab.node.id();
    pod.ip("link add br-old type bridge");
    crate::system::testing::ip(&format!("netns del {}", pod.0));
    crate::system::testing::ip(&format!("netns add {}", pod.0));
    pod.tie("eth0", &lab.node, "veth-new");
    let id = pod.id();
    let settled = |s: &Survey, _: &Delta| {
        let peer = s.inventory().link(id, 2).and_then(|l| l.peer);
        peer.is_some_and(|(other, _)| other == node) && !has(s, node, "veth0")
    };
    until(&mut watch, &mut survey, "the new one", settled).await;
    assert!(has(&survey, id, "eth0") && !has(&survey, id, "br-old"));
    let peer = link(&survey, node, "veth-new").peer;
    assert_eq!(peer, Some((id, index(&survey, id, "eth0"))));
}

#[tokio::test(flavor = "current_thread")]
async fn the_nodes_own_end_is_told_and_lets_it_go() {
    let roots = Roots::default();
    let lab = Lab::new(1);
    let pod = Netns::at(Path::new(&format!("/run/netns/{}", lab.pods[0].0))).unwrap();
    let node = lab.node.id();
    let mut watch = Watch::start(&roots, &lab.node()).unwrap();
    let mut survey = Survey::take(&roots, &lab.node(), Scope::All).unwrap();
    let Lab {
        node: gone,
        pods: _pods,
    } = lab;
    drop(gone);
    let told = |_: &Survey, d: &Delta| d.removed.contains(&node);
    until(&mut watch, &mut survey, "the node's end", told).await;
    let mut from_pod = Watch::start(&roots, &pod).unwrap();
    watch.release_node();
    let mut pods_view = Survey::take(&roots, &pod, Scope::All).unwrap();
    let veth_gone = |s: &Survey, _: &Delta| !has(s, pod.id, "eth0");
    until(
        &mut from_pod,
        &mut pods_view,
        "the end of the pod's veth",
        veth_gone,
    )
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn only_what_is_in_scope_is_looked_at() {
    let roots = Roots::default();
    let lab = Lab::new(2);
    let (inside, outside) = (lab.pods[0].id(), lab.pods[1].id());
    let mut watch = Watch::start(&roots, &lab.node()).unwrap();
    let scope = Scope::Only(BTreeSet::from([inside]));
    let mut survey = Survey::take(&roots, &lab.node(), scope).unwrap();
    let seen = |s: &Survey| {
        s.inventory()
            .namespaces
            .keys()
            .copied()
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(seen(&survey), BTreeSet::from([inside, lab.node.id()]));
    assert!(
        survey.discovery().found.contains_key(&outside),
        "still known by name"
    );
    assert_eq!(
        link(&survey, lab.node.id(), "veth1").peer.unwrap().0,
        outside
    );
    lab.pods[1].ip("link add br1 type bridge");
    lab.pods[0].ip("link add br0 type bridge");
    until(&mut watch, &mut survey, "br0", |s, _| has(s, inside, "br0")).await;
    assert_eq!(seen(&survey), BTreeSet::from([inside, lab.node.id()]));
    assert_eq!(survey.learn(&BTreeSet::from([outside])), Delta::default());
}

#[test]
fn a_namespace_that_only_a_process_holds_is_learned_on_demand() {
    let lab = Lab::new(0);
    let mut survey = Survey::take(&Roots::default(), &lab.node(), Scope::All).unwrap();
    let mut child = std::process::Command::new("unshare")
        .args(["--net", "sh", "-c", "echo ready; read end"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    let out = child.stdout.as_mut().unwrap();
    std::io::Read::read_exact(out, &mut ready).unwrap();
    let pid = child.id();
    let id = Netns::at(Path::new(&format!("/proc/{pid}/ns/net")))
        .unwrap()
        .id;
    let delta = survey.learn(&BTreeSet::from([id]));
    let name = survey.inventory().name(id).map(str::to_owned);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(delta.added.contains(&id), "{delta:?}");
    assert_eq!(name, Some(format!("sh[{pid}]")));
    assert_eq!(survey.learn(&BTreeSet::from([id])), Delta::default());
}

/// Runs something on a thread that lacks a capability.
fn without<T: Send>(capability: caps::Capability, work: impl FnOnce() -> T + Send) -> T {
    on_visitor(|| {
        caps::drop(None, caps::CapSet::Effective, capability).unwrap();
        work()
    })
    .unwrap()
}

#[test]
fn what_a_missing_capability_costs() {
    use caps::Capability;
    let roots = Roots::default();
    let lab = Lab::new(0);
    let node = lab.node();
    let refused = without(Capability::CAP_SYS_ADMIN, || {
        Survey::take(&roots, &node, Scope::All).unwrap_err()
    });
    assert_eq!(
        refused.to_string(),
        format!(
            "cannot enter the namespace of /run/netns/{}: Operation not permitted (os error 1); \
             run as root, in a container with CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_SYS_PTRACE",
            lab.node.0
        )
    );
    assert!(!refused.is_usage());
    let deaf = without(Capability::CAP_NET_BROADCAST, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { Watch::start(&roots, &node).unwrap().hears_all() })
    });
    assert!(!deaf, "hears the node's own namespace only");
    let missing = without(Capability::CAP_SYS_PTRACE, || {
        crate::system::capabilities::missing()
    });
    let names: Vec<&str> = missing.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["CAP_SYS_PTRACE"]);
}

/// Prints times with `--nocapture`; decides by what was found only.
#[tokio::test(flavor = "current_thread")]
async fn a_node_with_110_pods_is_known_and_kept_up_with() {
    const ROUNDS: usize = 5;
    let roots = Roots::default();
    let lab = Lab::new(110);
    let mut watch = Watch::start(&roots, &lab.node()).unwrap();
    let mut looks = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let survey = Survey::take(&roots, &lab.node(), Scope::All).unwrap();
        assert!(survey.inventory().namespaces.len() >= 111);
        looks.push(start.elapsed());
    }
    let mut survey = Survey::take(&roots, &lab.node(), Scope::All).unwrap();
    let mut heard = Vec::new();
    for n in 0..ROUNDS {
        let start = Instant::now();
        let late = TestNetns::new("late");
        let (id, addr) = (late.id(), format!("10.88.{n}.2"));
        late.tie("eth0", &lab.node, &format!("late{n}"));
        late.ip(&format!("addr add {addr}/24 dev eth0"));
        let made = Instant::now();
        let addr = addr.parse().unwrap();
        until(&mut watch, &mut survey, "late", |s, _| {
            s.inventory().owns(id, addr)
        })
        .await;
        heard.push(made.elapsed());
        println!(
            "pod {n}: made in {:?}, known {:?} after",
            made - start,
            made.elapsed()
        );
    }
    looks.sort();
    heard.sort();
    println!(
        "first look at 110 pods: median {:?}, worst {:?}",
        looks[ROUNDS / 2],
        looks[ROUNDS - 1]
    );
    println!(
        "new pod known: median {:?}, worst {:?}",
        heard[ROUNDS / 2],
        heard[ROUNDS - 1]
    );
}
