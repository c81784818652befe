//! Which words are credentials, the names of credentials, or plain values.

/// The ends of names of credentials, in lower case and without `-`, `_` and `.`.
const KEYS: [&[u8]; 13] = [
    b"password",
    b"password2",
    b"passwd",
    b"passphrase",
    b"token",
    b"secret",
    b"secretkey",
    b"apikey",
    b"accesskey",
    b"accountkey",
    b"privatekey",
    b"keydata",
    b"connectionstring",
];

/// Keys of mount options. Only the whole word is a key, because longer words end with them too.
const MOUNT_KEYS: [&str; 4] = ["pass", "cred", "credential", "credentials"];

/// The prefixes of credentials with a known form. `eyJ` is JSON in base64: a JWT, or a registry's
/// credentials.
const CREDENTIAL_PREFIXES: [&str; 10] = [
    "eyJ",
    "AKIA",
    "ASIA",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
];

/// The least length of a credential with a known prefix.
const MIN_CREDENTIAL_BYTES: usize = 20;

/// Schemes of `Authorization` whose credential is one word.
pub(super) const ONE_WORD_SCHEMES: [&str; 4] = ["bearer", "basic", "negotiate", "token"];

/// Schemes of `Authorization` whose credential is the rest of the line.
pub(super) const LINE_SCHEMES: [&str; 3] = ["digest", "aws4-hmac-sha256", "hoba"];

/// Values that are not secrets, and words that follow the name of a flag in a sentence.
pub(super) const PLAIN_VALUES: [&[u8]; 13] = [
    b"true", b"false", b"null", b"nil", b"none", b"<nil>", b"is", b"was", b"must", b"cannot",
    b"not", b"and", b"or",
];

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

/// The characters of a one-word credential: `b68token` of RFC 6750.
pub(super) fn is_token(byte: u8) -> bool {
    is_word(byte) || b"~+/=".contains(&byte)
}

pub(super) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

pub(super) fn is_quote(byte: u8) -> bool {
    b"\"'`".contains(&byte)
}

/// Whether the word has the form of a known kind of credential.
pub(super) fn is_credential(word: &[u8]) -> bool {
    let mut prefixes = CREDENTIAL_PREFIXES.iter();
    let mut rest = word.iter().skip(4);
    word.len() >= MIN_CREDENTIAL_BYTES
        && prefixes.any(|prefix| word.starts_with(prefix.as_bytes()))
        && rest.any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

pub(super) fn is_key(word: &[u8]) -> bool {
    KEYS.iter().any(|key| ends_with(word, key)) || is_mount_key(word)
}

pub(super) fn is_mount_key(word: &[u8]) -> bool {
    let mut keys = MOUNT_KEYS.iter();
    keys.any(|key| word.eq_ignore_ascii_case(key.as_bytes()))
}

/// Whether the word ends with `end`, regardless of case and of separators between the letters.
pub(super) fn ends_with(word: &[u8], end: &[u8]) -> bool {
    let mut letters = word.iter().rev().filter(|byte| !b"_-.".contains(byte));
    // A word that ends with a separator is not a key.
    word.last().is_some_and(u8::is_ascii_alphanumeric)
        && end.iter().rev().all(|byte| {
            letters
                .next()
                .is_some_and(|it| it.eq_ignore_ascii_case(byte))
        })
}
