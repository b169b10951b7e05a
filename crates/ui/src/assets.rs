//! The files of the page. They are built by `npm run build` in `web/`, and committed, so that a Rust toolchain is enough.

use std::sync::LazyLock;

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its type, for the header `Content-Type`.
    pub content_type: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
    /// A value that changes with the content, for the header `ETag`.
    pub etag: &'static str,
}

/// What every answer with a file of the page says to the browser: nothing is loaded from, or sent to, another host, no text
/// is run as a script, and no other page shows this one in a frame.
pub const SECURITY_HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-cache"),
];

/// Name, type and content of each file.
const FILES: [(&str, &str, &[u8]); 4] = [
    ("", "text/html; charset=utf-8", include_bytes!("../assets/index.html")),
    ("app.js", "text/javascript; charset=utf-8", include_bytes!("../assets/app.js")),
    ("app.css", "text/css; charset=utf-8", include_bytes!("../assets/app.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("../assets/icon.svg")),
];

static ETAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    FILES.iter().map(|(_, _, bytes)| format!("\"{:016x}\"", hash(bytes))).collect()
});

/// The file of the page with this name; the page itself has the empty one.
pub fn asset(name: &str) -> Option<Asset> {
    let at = FILES.iter().position(|(known, ..)| *known == name)?;
    let (_, content_type, bytes) = FILES[at];
    Some(Asset { content_type, bytes, etag: &ETAGS[at] })
}

/// FNV-1a. It tells editions of a file apart, and is no protection.
fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_names_no_other_host() {
        let mut size = 0;
        for (name, ..) in FILES {
            let found = asset(name).expect("it is listed");
            size += found.bytes.len();
            let text = String::from_utf8_lossy(found.bytes);
            for (at, _) in text.match_indices("://") {
                let from =
                    text[..at].rfind(|c: char| !c.is_ascii_alphabetic()).map_or(0, |at| at + 1);
                let url: String = text[from..].chars().take(40).collect();
                // These name forms of documents. No browser asks them for anything.
                assert!(url.starts_with("http://www.w3.org/"), "{name} names {url}");
            }
        }
        assert!(size < 300_000, "{size} bytes are sent for the first view");
    }

    #[test]
    fn the_page_has_no_script_and_no_style_of_its_own_and_the_program_does_not_write_markup() {
        let page = String::from_utf8_lossy(asset("").expect("it is the page").bytes);
        assert_eq!(
            page.matches("<script").count(),
            page.matches("<script type=\"module\" src=").count()
        );
        assert!(
            !page.contains("<style") && !page.contains("style=") && !page.contains(" on"),
            "{page}"
        );
        assert!(asset("../Cargo.toml").is_none());
    }

    #[test]
    fn the_etag_depends_on_the_content() {
        assert_ne!(
            asset("app.js").expect("it is there").etag,
            asset("app.css").expect("it is there").etag
        );
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c, "as FNV-1a is defined");
    }
}
