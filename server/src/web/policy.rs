//! What browsers may do with our pages.

use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

/// Nothing from anywhere else, nothing written into a page, no page inside another's.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Adds what every answer has, unless it says something of its own.
pub(super) async fn guard(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    let mut say = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    say(CONTENT_SECURITY_POLICY, POLICY);
    say(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Others are told nothing. With less than this, forms of ours would not say where they come from either.
    say(REFERRER_POLICY, "same-origin");
    // Nothing of it is for others, and all of it changes.
    say(CACHE_CONTROL, "private, no-cache");
    say(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    say(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    answer
}
