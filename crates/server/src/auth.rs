//! Who may use the API, and whose request it is.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tokenfare_lanes::ClientId;

use crate::ApiError;
use crate::serve::Shared;

/// The one route that needs no key.
const OPEN: &str = "/health";

/// Keys that open the API; none leaves it open. Only digests are kept.
#[derive(Clone, Default)]
pub struct ApiKeys {
    digests: Vec<[u8; 32]>,
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.digests.len())
    }
}

/// Why a key cannot be one. The key itself is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key: expected visible ASCII characters, at least one")]
pub struct KeyError;

fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

impl ApiKeys {
    /// These keys; one that is given twice counts once.
    ///
    /// # Errors
    /// A key that a header cannot carry.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<Self, KeyError> {
        let mut digests: Vec<[u8; 32]> = Vec::new();
        for key in keys {
            if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(KeyError);
            }
            let digest = digest(key.as_bytes());
            if !digests.contains(&digest) {
                digests.push(digest);
            }
        }
        Ok(Self { digests })
    }

    /// Whether the API is open.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// The number of the key equal to `given`. Digests of equal length are compared, all of them to their end, so the
    /// time taken tells nothing about a key.
    fn find(&self, given: &[u8]) -> Option<usize> {
        let given = digest(given);
        let (mut found, mut number) = (Choice::from(0), 0u64);
        for (i, key) in self.digests.iter().enumerate() {
            let same = key.ct_eq(&given);
            number.conditional_assign(&(i as u64), same);
            found |= same;
        }
        bool::from(found).then_some(number as usize)
    }

    /// Whose request with these headers from `peer` is. Its client is its key if several are known, else its address.
    fn caller(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Caller, ApiError> {
        let by_address = ClientId(peer.map_or(0, address_bits));
        if self.is_empty() {
            return Ok(Caller { client: by_address, key: None });
        }
        let given = given(headers).ok_or_else(|| unauthorized("no API key given"))?;
        let key = self.find(given).ok_or_else(|| unauthorized("wrong API key"))?;
        let client = if self.digests.len() > 1 { ClientId(key as u64) } else { by_address };
        Ok(Caller { client, key: Some(key) })
    }
}

/// An address as a number; of IPv6 the half that names a network, which one client usually owns as a whole.
fn address_bits(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
    }
}

fn given(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked("bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
    });
    bearer.or_else(|| headers.get("x-api-key").map(|value| value.as_bytes()))
}

fn unauthorized(problem: &str) -> ApiError {
    let how = "expected Authorization: Bearer KEY or x-api-key: KEY";
    let code = Some("invalid_api_key");
    ApiError { code, ..ApiError::status(StatusCode::UNAUTHORIZED, format!("{problem}, {how}")) }
}

/// Lets a request through if it may come in, and notes whose it is.
pub(crate) async fn authenticate(State(server): State<Shared>, mut request: Request, next: Next) -> Response {
    if request.uri().path() == OPEN {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    match server.keys.caller(request.headers(), peer) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => {
            let mut response = error.into_response();
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
            response
        }
    }
}

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Caller {
    /// Whom the queue gives a turn.
    pub client: ClientId,
    /// The number of its key, if the API needs one.
    pub key: Option<usize>,
}

/// Who may see what is kept of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Everyone with this key.
    Key(usize),
    /// Everyone at this address.
    Address(ClientId),
}

impl Caller {
    /// The owner of what the request leaves: the key, or the address where the API needs none.
    pub(crate) fn owner(self) -> Owner {
        self.key.map_or(Owner::Address(self.client), Owner::Key)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::http::HeaderValue;
    use rstest::rstest;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|&(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect()
    }

    #[rstest]
    #[case(&[], None)]
    #[case(&[("authorization", "Bearer one")], Some(0))]
    #[case(&[("authorization", "bearer  two ")], Some(1))]
    #[case(&[("x-api-key", "two")], Some(1))]
    #[case(&[("authorization", "Basic one")], None)]
    #[case(&[("authorization", "Bearer on")], None)]
    #[case(&[("authorization", "Bearer onee")], None)]
    #[case(&[("authorization", "Bearer ")], None)]
    fn a_key_is_found_in_either_header(
        #[case] pairs: &[(&'static str, &'static str)],
        #[case] key: Option<u64>,
    ) {
        let keys = ApiKeys::new(["one", "two", "one"]).unwrap();
        let found = keys.caller(&headers(pairs), Some(PEER)).map_err(|e| (e.status, e.code));
        let refusal = (StatusCode::UNAUTHORIZED, Some("invalid_api_key"));
        assert_eq!(found.map(|caller| caller.client), key.map(ClientId).ok_or(refusal));
        assert_eq!(found.ok().map(Caller::owner), key.map(|key| Owner::Key(key as usize)));
    }

    #[test]
    fn without_several_keys_clients_are_addresses() {
        let client = ClientId(0x0a00_0007);
        let one = ApiKeys::new(["one"]).unwrap();
        let keyed = one.caller(&headers(&[("x-api-key", "one")]), Some(PEER)).unwrap();
        assert_eq!((keyed.client, keyed.owner()), (client, Owner::Key(0)));
        let mapped = "::ffff:10.0.0.7".parse().unwrap();
        for peer in [PEER, mapped] {
            let open = ApiKeys::default().caller(&HeaderMap::new(), Some(peer)).unwrap();
            assert_eq!((open.client, open.owner()), (client, Owner::Address(client)));
        }
        let network = |text: &str| address_bits(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::2"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8::1"));
    }

    #[test]
    fn keys_that_no_header_carries_are_refused_and_none_is_shown() {
        for bad in ["", "two words", "tab\t", "Schlüssel"] {
            assert_eq!(ApiKeys::new([bad]).unwrap_err(), KeyError);
        }
        assert_eq!(format!("{:?}", ApiKeys::new(["secret"]).unwrap()), "ApiKeys(1)");
    }
}
