//! Replaces environment variables in values: `${NAME}`, `${NAME:-default}`, and `$$` for a dollar.
//! There is one pass: a `$` in the value of a variable has no meaning.

use super::values::{Invalid, quoted};

/// The text with its variables replaced. As in a shell, the default also stands for an empty
/// variable.
///
/// # Errors
/// One for each variable that is not set and has no default, and for each `$` of another form.
pub(super) fn expand(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<String, Vec<Invalid>> {
    let mut out = String::with_capacity(text.len());
    let mut faults = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((inner, after)) = rest.strip_prefix('{').and_then(|r| r.split_once('}'))
        {
            rest = after;
            match value(inner, env) {
                Ok(value) => out.push_str(&value),
                Err(fault) => faults.push(fault),
            }
        } else {
            let message = format!("a `$` in {} that starts no `${{NAME}}`", quoted(text));
            faults.push(Invalid { message, remedy: "write `$$` for a dollar".to_owned() });
        }
    }
    out.push_str(rest);
    if faults.is_empty() { Ok(out) } else { Err(faults) }
}

/// The value for the text between the braces.
fn value(inner: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, Invalid> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(valid) || name.starts_with(|c: char| c.is_ascii_digit())
    {
        let message = format!("{} is not the name of a variable", quoted(name));
        let remedy = "names are letters, digits and `_`; write `$$` for a dollar".to_owned();
        return Err(Invalid { message, remedy });
    }
    if default.is_some_and(|default| default.contains('$')) {
        let message = format!("the default of `${{{name}}}` holds a `$`");
        return Err(Invalid { message, remedy: "a default is plain text".to_owned() });
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Invalid {
            message: format!("the environment variable `{name}` is not set"),
            remedy: format!("set it, or give a default: `${{{name}:-…}}`"),
        }),
    }
}
