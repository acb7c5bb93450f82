//! Limits the bodies of responses that the SDK reads into memory as a whole: lists, errors, and
//! credentials. `fetch` compares the bodies of objects with the requested range.

use std::error::Error;
use std::fmt;

use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextMut;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_sdk_s3::primitives::SdkBody;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, Metadata};
use http_body_util::{BodyExt, LengthLimitError, Limited};

/// Size limit of a body in bytes. A list of 1,000 keys of 1,024 bytes, each of which is escaped,
/// has less.
const MAX_BODY_BYTES: usize = 8 << 20;
/// The operation whose body is not read as a whole.
const GET_OBJECT: &str = "GetObject";

/// Limits the bodies of all responses but of objects.
#[derive(Debug)]
pub(super) struct LimitBodies;

impl Intercept for LimitBodies {
    fn name(&self) -> &'static str {
        "LimitBodies"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let is_object = config.load::<Metadata>().is_some_and(|of| of.name() == GET_OBJECT)
            && context.response().status().is_success();
        if !is_object {
            limit(context.response_mut());
        }
        Ok(())
    }
}

/// Limits the body of a response: if it is longer, reading it fails.
pub(super) fn limit(response: &mut HttpResponse) {
    let body = std::mem::replace(response.body_mut(), SdkBody::taken());
    let limited = Limited::new(body, MAX_BODY_BYTES).map_err(|error| -> BoxError {
        if error.is::<LengthLimitError>() { Box::new(BodyTooLong) } else { error }
    });
    *response.body_mut() = SdkBody::from_body_1_x(limited);
}

/// Whether the cause of an error is that a body was too long.
pub(super) fn is_body_too_long(error: &(dyn Error + 'static)) -> bool {
    error.is::<BodyTooLong>() || error.source().is_some_and(is_body_too_long)
}

/// A body is longer than [`MAX_BODY_BYTES`].
#[derive(Debug)]
struct BodyTooLong;

impl fmt::Display for BodyTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its body has more than {MAX_BODY_BYTES} bytes")
    }
}

impl Error for BodyTooLong {}
