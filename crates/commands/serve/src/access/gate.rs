//! What a request may do, by its headers alone.

use super::token::Token;
use super::{Origin, Secret};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Decides about requests.
pub(crate) struct Gate {
    origin: Origin,
    secret: Option<Secret>,
    sessions: Mutex<Sessions>,
    /// The turn of a browser that guesses a secret.
    guesses: Arc<Semaphore>,
}

#[derive(Default)]
struct Sessions {
    /// The token of the one-time URL that was printed last.
    token: Option<Token>,
    /// Values of cookies, the oldest first.
    cookies: VecDeque<Token>,
}

/// The headers of a request that decide.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Head<'a> {
    /// `Host`.
    pub(crate) host: Option<&'a str>,
    /// `Cookie`.
    pub(crate) cookies: Option<&'a str>,
    /// `Authorization`.
    pub(crate) authorization: Option<&'a str>,
    /// `Sec-Fetch-Site`: where a browser says that the request comes from.
    pub(crate) fetch_site: Option<&'a str>,
}

/// What a request may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Read everything.
    Allowed,
    /// Nothing: it is for another host.
    WrongHost,
    /// Nothing: another site's page sent it.
    OtherSite,
    /// Only log in.
    Unknown,
}

impl Gate {
    /// Creates a gate that no cookie opens yet.
    pub(crate) fn new(origin: Origin, secret: Option<Secret>) -> Self {
        Self {
            origin,
            secret,
            sessions: Mutex::default(),
            guesses: Arc::new(Semaphore::new(1)),
        }
    }

    /// Returns the turns of wrong secrets: one at a time.
    pub(crate) const fn guesses(&self) -> &Arc<Semaphore> {
        &self.guesses
    }

    pub(crate) const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether people log in with a secret.
    pub(crate) const fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// Returns a URL that opens the page once. The one before loses its effect.
    pub(crate) fn new_url(&self) -> Result<String, Errno> {
        let token = Token::new()?;
        let url = self.origin.url(&format!("/?token={}", token.as_str()));
        self.sessions().token = Some(token);
        Ok(url)
    }

    /// Decides about a request.
    pub(crate) fn verdict(&self, head: &Head<'_>) -> Verdict {
        if !head.host.is_some_and(|host| self.origin.is_host(host)) {
            return Verdict::WrongHost;
        }
        // Links from other pages may open ours; what our page asks for comes from our page.
        if head
            .fetch_site
            .is_some_and(|site| !["same-origin", "none"].contains(&site))
        {
            return Verdict::OtherSite;
        }
        let bearer = head.authorization.and_then(|value| value.strip_prefix("Bearer "));
        if let (Some(secret), Some(sent)) = (&self.secret, bearer)
            && secret.is(sent)
        {
            return Verdict::Allowed;
        }
        let name = self.cookie_name();
        let mut values = head
            .cookies
            .into_iter()
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| {
                let (key, value) = cookie.trim().split_once('=')?;
                (key == name).then_some(value)
            });
        let sessions = self.sessions();
        if values.any(|value| sessions.cookies.iter().any(|cookie| cookie.is(value))) {
            Verdict::Allowed
        } else {
            Verdict::Unknown
        }
    }

    /// Turns the token of a one-time URL into a cookie; `None`: it is not the last one, or was used before.
    pub(crate) fn redeem(&self, token: &str) -> Option<String> {
        let mut sessions = self.sessions();
        sessions.token.take_if(|valid| valid.is(token))?;
        drop(sessions);
        self.new_cookie()
    }

    /// Turns the secret into a cookie; `None`: it is another one.
    pub(crate) fn log_in(&self, secret: &str) -> Option<String> {
        self.secret.as_ref().filter(|known| known.is(secret))?;
        self.new_cookie()
    }

    fn new_cookie(&self) -> Option<String> {
        let value = Token::new().ok()?;
        let secure = if self.origin.is_https { "; Secure" } else { "" };
        let cookie = format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict{secure}",
            self.cookie_name(),
            value.as_str()
        );
        let mut sessions = self.sessions();
        if sessions.cookies.len() == SESSIONS_MAX {
            sessions.cookies.pop_front();
        }
        sessions.cookies.push_back(value);
        Some(cookie)
    }

    /// Returns the name of the cookie. Cookies are shared by all ports of a host, so it has the port.
    fn cookie_name(&self) -> String {
        let prefix = if self.origin.is_https {
            "__Host-sockeye"
        } else {
            "sockeye"
        };
        match self.origin.host.rsplit_once(':') {
            Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("{prefix}_{port}"),
            _ => prefix.to_owned(),
        }
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Browsers that are logged in at the same time: with one more, the one that logged in first has to do so again.
const SESSIONS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "127.0.0.1:7117";

    fn gate(secret: Option<&str>) -> Gate {
        let origin = Origin::of_address(HOST.parse().unwrap(), false);
        Gate::new(origin, secret.map(Secret::of))
    }

    fn token_of(url: &str) -> &str {
        url.strip_prefix("http://127.0.0.1:7117/?token=").unwrap()
    }

    fn value_of(cookie: &str) -> &str {
        cookie.split(';').next().unwrap()
    }

    fn head(cookies: &str) -> Head<'_> {
        Head {
            host: Some(HOST),
            cookies: Some(cookies),
            ..Head::default()
        }
    }

    #[test]
    fn url_opens_the_page_once() {
        let gate = gate(None);
        let url = gate.new_url().unwrap();
        assert_eq!(gate.redeem("0"), None);
        let cookie = gate.redeem(token_of(&url)).unwrap();
        assert!(
            cookie.starts_with("sockeye_7117=") && cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict")
        );
        assert_eq!(gate.redeem(token_of(&url)), None);
        assert_eq!(gate.verdict(&head(value_of(&cookie))), Verdict::Allowed);
        let among_others = format!("a=b; {} ; c", value_of(&cookie));
        assert_eq!(gate.verdict(&head(&among_others)), Verdict::Allowed);
        // The token itself is no cookie.
        let token = format!("sockeye_7117={}", token_of(&url));
        assert_eq!(gate.verdict(&head(&token)), Verdict::Unknown);
    }

    #[test]
    fn newer_url_replaces_the_older_one() {
        let gate = gate(None);
        let older = gate.new_url().unwrap();
        let newer = gate.new_url().unwrap();
        assert_eq!(gate.redeem(token_of(&older)), None);
        assert!(gate.redeem(token_of(&newer)).is_some());
    }

    #[test]
    fn other_hosts_and_sites_are_refused_even_with_the_cookie() {
        let gate = gate(None);
        let cookie = gate.redeem(token_of(&gate.new_url().unwrap())).unwrap();
        let with = |host, fetch_site| {
            gate.verdict(&Head {
                host,
                fetch_site,
                ..head(value_of(&cookie))
            })
        };
        for host in [
            None,
            Some("localhost:7117"),
            Some("evil.example"),
            Some("127.0.0.1"),
            Some("127.0.0.1:7117.evil.example"),
        ] {
            assert_eq!(with(host, None), Verdict::WrongHost, "{host:?}");
        }
        for site in ["cross-site", "same-site", "?"] {
            assert_eq!(with(Some(HOST), Some(site)), Verdict::OtherSite, "{site}");
        }
        assert_eq!(with(Some(HOST), Some("same-origin")), Verdict::Allowed);
        assert_eq!(with(Some(HOST), Some("none")), Verdict::Allowed);
    }

    #[test]
    fn secret_logs_in_and_authorizes() {
        let gate = gate(Some("correct horse battery"));
        assert_eq!(gate.log_in("wrong"), None);
        let cookie = gate.log_in("correct horse battery").unwrap();
        assert_eq!(gate.verdict(&head(value_of(&cookie))), Verdict::Allowed);
        let bearer = |authorization| {
            gate.verdict(&Head {
                host: Some(HOST),
                authorization: Some(authorization),
                ..Head::default()
            })
        };
        assert_eq!(bearer("Bearer correct horse battery"), Verdict::Allowed);
        assert_eq!(bearer("Bearer correct horse batter"), Verdict::Unknown);
        assert_eq!(bearer("Bearer "), Verdict::Unknown);
        assert_eq!(super::tests::gate(None).log_in(""), None);
    }

    #[test]
    fn sessions_are_bounded() {
        let gate = gate(Some("correct horse battery"));
        let log_in = || gate.log_in("correct horse battery").unwrap();
        let first = log_in();
        for _ in 0..SESSIONS_MAX {
            log_in();
        }
        assert_eq!(gate.verdict(&head(value_of(&first))), Verdict::Unknown);
    }
}
