//! Which connections are let in: as many as there may be in all, and from one address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The bits of an IPv6 address that one customer of a network shares.
const IPV6_NETWORK: u128 = !0 << 64;

/// The connections that are open, by address.
pub(super) struct Admission {
    per_address_max: Option<usize>,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that was let in; it counts until this is dropped.
pub(super) struct Admitted {
    admission: Arc<Admission>,
    address: IpAddr,
}

impl Admission {
    pub(super) fn new(per_address_max: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            per_address_max,
            open: Mutex::default(),
        })
    }

    /// Lets a connection in, unless its address has as many as it may have.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Admitted> {
        let address = network(address);
        let mut open = self.lock();
        let count = open.entry(address).or_default();
        if self.per_address_max.is_some_and(|max| *count >= max) {
            return None;
        }
        *count += 1;
        drop(open);
        Some(Admitted {
            admission: Arc::clone(self),
            address,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What counts as one address: an IPv4 address, or an IPv6 network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & IPV6_NETWORK).into(),
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.admission.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_as_many_connections_as_it_may_have() {
        let admission = Admission::new(Some(2));
        let admit = |address: &str| admission.admit(address.parse().unwrap());
        let (one, two) = (admit("10.0.0.1"), admit("::ffff:10.0.0.1"));
        assert!(one.is_some() && two.is_some());
        assert!(admit("10.0.0.1").is_none());
        assert!(admit("10.0.0.2").is_some());
        drop(one);
        assert!(admit("10.0.0.1").is_some());
        let networks = [
            admit("2001:db8::1"),
            admit("2001:db8::2"),
            admit("2001:db8::3"),
        ];
        assert!(networks[1].is_some() && networks[2].is_none());
        assert!(admit("2001:db8:0:1::1").is_some());
        drop((two, networks));
        assert!(admission.lock().is_empty());
    }

    #[test]
    fn without_a_bound_any_number_is_let_in() {
        let admission = Admission::new(None);
        let address = IpAddr::from([127, 0, 0, 1]);
        let open: Vec<_> = (0..100).map(|_| admission.admit(address)).collect();
        assert!(open.iter().all(Option::is_some));
    }
}
