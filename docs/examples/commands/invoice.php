<?php
// A job in PHP. The payload comes as JSON on standard input; what is printed as JSON is the job's result.
$job = json_decode(stream_get_contents(STDIN), true, 512, JSON_THROW_ON_ERROR);
if (!isset($job['lines'])) {
    fwrite(STDERR, "no lines on invoice {$job['number']}\n");
    exit(1); // an error: tried again, then a dead letter with this text
}
$total = 0;
foreach ($job['lines'] as $line) {
    $total += $line['count'] * $line['cents'];
}
echo json_encode(['number' => $job['number'], 'total_cents' => $total]), "\n";
