<?php
// A worker for jobpool in PHP, over HTTP. PHP with allow_url_fopen is all it needs.
//   JOBPOOL_URL=http://127.0.0.1:8420 JOBPOOL_TOKEN=… JOBPOOL_QUEUES=thumbnails php worker.php
// With JOBPOOL_ONCE=1 it ends when there is nothing to do.

// What each job type does: gets the payload, returns the result (anything that json_encode takes).
// Throw an exception and the job is tried again later; throw a GiveUp and it is not.
class GiveUp extends Exception {}

$jobs = [
    'thumb' => function (array $payload, callable $progress) {
        $progress(0.5, 'half of it');
        return ['made' => $payload['path'] ?? null, 'by' => 'php'];
    },
];

$url = rtrim(getenv('JOBPOOL_URL') ?: 'http://127.0.0.1:8420', '/');
$token = getenv('JOBPOOL_TOKEN') ?: exit("set JOBPOOL_TOKEN\n");
$queues = array_filter(explode(',', getenv('JOBPOOL_QUEUES') ?: ''));

/** Status and document of the answer; status 0 when there was none. */
function post(string $path, array $body, array $headers = []): array
{
    global $url, $token;
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => ["Authorization: Bearer $token", 'Content-Type: application/json', ...$headers],
        'content' => json_encode($body ?: new stdClass(), JSON_UNESCAPED_SLASHES),
        'ignore_errors' => true,
        'timeout' => 60,
    ]]);
    $text = @file_get_contents($url . $path, false, $context);
    $status = isset($http_response_header) ? (int) explode(' ', $http_response_header[0])[1] : 0;
    return [$status, json_decode($text ?: 'null', true)];
}

/** The holder's last word must arrive: it is repeated until the server has taken or refused it. */
function tell(string $path, array $body): void
{
    for ($wait = 1; ; $wait = min($wait * 2, 30)) {
        [$status] = post($path, $body);
        if ($status >= 200 && $status < 500 && $status !== 429) {
            return; // 409: the job is no longer ours, somebody else has it
        }
        sleep($wait);
    }
}

while (true) {
    $key = bin2hex(random_bytes(16)); // a repeated claim with this key is the same job, not a second one
    do {
        [$status, $job] = post('/jobs/claim', ($queues ? ['queues' => $queues] : []) + ['wait' => 20], ["Idempotency-Key: $key"]);
        if ($status === 401 || $status === 403) {
            exit("the server refuses: {$job['detail']}\n");
        }
        $again = $status !== 200 && $status !== 204;
        if ($again) {
            sleep(2); // the server or its store is away
        }
    } while ($again);
    if ($status === 204) {
        if (getenv('JOBPOOL_ONCE')) {
            exit(0);
        }
        continue;
    }

    $path = "/jobs/{$job['id']}";
    $claim = ['claim_token' => $job['claim_token']];
    // Call this at least every $job['lease_seconds'] / 3 seconds in a long job: it keeps the job ours.
    $progress = function (float $fraction, string $note = '') use ($path, $claim): void {
        [$status, $answer] = post("$path/heartbeat", $claim + ['progress' => $fraction, 'note' => $note]);
        if ($status === 409) {
            throw new RuntimeException('the job was given to another worker');
        }
        if ($answer['cancel_requested'] ?? false) {
            throw new GiveUp('cancelled');
        }
    };
    try {
        if (!isset($jobs[$job['type']])) {
            throw new GiveUp("this worker does not know {$job['type']}");
        }
        tell("$path/complete", $claim + ['result' => $jobs[$job['type']]($job['payload'], $progress)]);
    } catch (Throwable $error) {
        tell("$path/fail", $claim + [
            'error' => $error->getMessage(),
            'exception' => get_class($error),
            'fatal' => $error instanceof GiveUp,
        ]);
    }
}
