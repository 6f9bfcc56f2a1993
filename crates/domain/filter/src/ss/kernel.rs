//! The part that `ss` sends to the kernel (`ssfilter_bytecompile()`), as an expression of ours.

use super::parse::DEPTH_MAX;
use super::tree::{Expr, Host, Join, Prefix, Test};
use crate::expr::{Expr as Ours, Host as OurHost, Net, Ports, Side, Test as OurTest};
use sockeye_model::Family;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The bytecode that `ss` makes of a filter.
pub(super) enum KernelPart {
    /// `ss` sends none.
    Empty,
    /// The kernel refuses it.
    Refused,
    Expr(Ours),
}

pub(super) fn kernel_part(tree: &Expr) -> KernelPart {
    let (mut has_device, mut is_refused) = (false, false);
    tree.visit(&mut |test| {
        has_device |= matches!(test, Test::Device(_));
        is_refused |= matches!(test, Test::Host(_, host) if !host.is_of_inet());
    });
    if has_device {
        return KernelPart::Empty;
    }
    if is_refused {
        return KernelPart::Refused;
    }
    lower(tree).map_or(KernelPart::Empty, |(expr, _)| KernelPart::Expr(expr))
}

/// Returns the expression with its depth; `None` if it is too deep, as a list is that alternates often between `and` and `or`.
fn lower(tree: &Expr) -> Option<(Ours, usize)> {
    let (expr, depth) = match tree {
        Expr::Test(test) => (of_test(test), TEST_DEPTH),
        Expr::Not(inner) => {
            let (inner, depth) = lower(inner)?;
            (inner.not(), depth + 1)
        }
        Expr::List(first, others) => {
            let (mut expr, mut depth) = lower(first)?;
            let mut before = None;
            for (join, other) in others {
                let (other, other_depth) = lower(other)?;
                let is_same = before.replace(join) == Some(join);
                depth = depth.max(other_depth + usize::from(is_same)) + usize::from(!is_same);
                expr = match join {
                    Join::And => expr.and(other),
                    Join::Or => expr.or(other),
                };
                if depth > DEPTH_MAX {
                    return None;
                }
            }
            (expr, depth)
        }
    };
    (depth <= DEPTH_MAX).then_some((expr, depth))
}

fn of_test(test: &Test) -> Ours {
    Ours::Test(match test {
        Test::Host(side, Host::Address { port, first, .. }) => {
            // `struct inet_diag_hostcond` has 32 bits for it.
            let ports = match *port as i32 {
                -1 => None,
                port => Some(u16::try_from(port).map_or(Ports::NONE, Ports::one)),
            };
            match (first.net(), ports) {
                (None, None) => return Ours::All,
                (None, Some(ports)) => OurTest::Port(*side, ports),
                (net, ports) => OurTest::Host(OurHost {
                    side: *side,
                    family: None,
                    net,
                    ports,
                }),
            }
        }
        // Not about inet sockets; such filters are refused before.
        Test::Host(_, Host::Unix(_)) => return Ours::All,
        Test::PortAtLeast(side, port) => ports(*side, low_half(*port), u16::MAX),
        Test::PortAtMost(side, port) => ports(*side, 0, low_half(*port)),
        // `ss` does not send this either.
        Test::Device(_) => return Ours::All,
        Test::Mark { mark, mask } => OurTest::Fwmark {
            mark: *mark,
            mask: *mask,
        },
        Test::Cgroup { id, path } => OurTest::Cgroup {
            id: *id,
            path: path.clone(),
        },
        // The kernel needs no range.
        Test::Autobound(_) => OurTest::Autobound(Ports {
            low: 0,
            high: u16::MAX,
        }),
    })
}

const fn ports(side: Side, low: u16, high: u16) -> OurTest {
    OurTest::Port(side, Ports { low, high })
}

/// The part of a port that fits into the `no` of a `struct inet_diag_bc_op`.
const fn low_half(port: i64) -> u16 {
    port as u16
}

impl Host {
    /// Whether `valid_hostcond()` accepts its family.
    const fn is_of_inet(&self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Address { first, .. } => {
                matches!(first.family, None | Some(Family::Inet | Family::Inet6))
            }
        }
    }
}

impl Prefix {
    fn net(&self) -> Option<Net> {
        let [a, b, c, d, ..] = self.bytes;
        match self.family {
            Some(Family::Inet) => Some(Net::v4(Ipv4Addr::new(a, b, c, d), self.bits)),
            Some(Family::Inet6) => Some(Net::v6(Ipv6Addr::from(self.bytes), self.bits)),
            _ => None,
        }
    }
}

/// Depth of an expression of ours without parts.
const TEST_DEPTH: usize = 1;

#[cfg(test)]
mod tests {
    use crate::{KernelFeatures, NoResolve, ss};
    use sockeye_wire::bytecode::{Assembler, Condition, audit};

    fn read(text: &str) -> ss::Filter {
        ss::parse(&[text.to_owned()], None, &ss::Context::default(), &NoResolve).expect(text)
    }

    /// Compares the part for the kernel in our language; `-` is none, `!` is refused.
    #[test]
    fn kernel_part_has_what_bytecode_can_express() {
        let check = |text: &str, expected: &str| {
            let filter = read(text);
            let found = if filter.is_refused() {
                "!".to_owned()
            } else if filter.kernel().is_empty() {
                "-".to_owned()
            } else {
                filter.kernel().to_string()
            };
            assert_eq!(found, expected, "{text}");
            assert!(filter.kernel().program(KernelFeatures::FULL).exact, "{text}");
        };
        for (text, expected) in [
            ("", "-"),
            ("src *", "-"),
            ("src 10.1.2.3/8:80", "src = 10.0.0.0/8:80"),
            ("dst 0.0.0.0/0", "dst = 0.0.0.0/0"),
            ("dst inet6:any:80", "dst = [::/0]:80"),
            ("dport = 70000", "dport > :65535"),
            ("dport = -2", "dport > :65535"),
            // The lower half
            ("dport >= 65616", "dport >= :80"),
            ("sport > *", "not sport >= :0"),
            ("sport >= *", "sport = :65535"),
            (
                "sport 1 or sport 2 and ! ( dport 3 or fwmark 1/2 )",
                "( sport = :1 or sport = :2 ) and not ( dport = :3 or fwmark = 0x1/0x2 )",
            ),
            ("autobound", "autobound"),
            ("sport 1 or ( dev 1 )", "-"),
            ("sport 1 or src unix:/x", "!"),
            ("src link:ip", "!"),
            ("sport = netlink:1", "!"),
            ("src vsock:3", "!"),
            ("dev 1 or src vsock:3", "-"),
        ] {
            check(text, expected);
        }
    }

    /// It has to be the kernel's condition alone, without the range that our own language adds.
    #[test]
    fn autobound_is_a_single_operation() {
        let mut assembler = Assembler::default();
        assembler.condition(&Condition::Auto, Assembler::REJECT);
        let filter = read("autobound");
        let program = filter.kernel().program(KernelFeatures::OLDEST);
        assert_eq!(Some(program.bytecode), assembler.finish());
        assert!(filter.needs().kernel_only && !read("autobound dev 1").needs().kernel_only);
    }

    #[test]
    fn kernel_part_has_only_the_first_address() {
        struct TwoAddresses;
        impl crate::Resolve for TwoAddresses {
            fn host(&self, _: &str) -> Vec<std::net::IpAddr> {
                vec![[0, 0, 0, 0, 0, 0, 0, 1].into(), [127, 0, 0, 1].into()]
            }
        }
        let words = ["not dst both".to_owned()];
        let filter = ss::parse(&words, None, &ss::Context::default(), &TwoAddresses).expect("a name");
        assert_eq!(filter.kernel().to_string(), "dst != 127.0.0.1/32");
    }

    #[test]
    fn too_long_filter_has_no_kernel_part() {
        let filter = read(&("sport 1 or ".repeat(10_000) + "sport 2"));
        assert!(!filter.kernel().is_empty());
        assert!(filter.kernel().program(KernelFeatures::FULL).bytecode.is_empty());
        let program = read(&("sport 1 or ".repeat(1000) + "sport 2"))
            .kernel()
            .program(KernelFeatures::FULL);
        assert_eq!(audit(&program.bytecode, false), Ok(()));
    }
}
