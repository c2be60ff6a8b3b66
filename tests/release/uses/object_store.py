"""With the extra ``object-store``: a bucket that nobody answers for is an error with its name."""

import deltanb as dn

try:
    dn.open("s3://lake/ducks", storage_options={
        "endpoint": "http://127.0.0.1:9", "access_key_id": "a", "secret_access_key": "b", "region": "r",
        "allow_http": "true", "max_retries": "0", "retry_timeout": "1s"})
except dn.errors.DeltaError as error:
    assert "s3://lake" in str(error), error
else:
    raise AssertionError("nobody serves this bucket")
