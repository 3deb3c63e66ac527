// Worker threads: each has an isolate and compiled code of its own, and they meet by messages
// and by a shared array. Arguments: number of workers, and of rounds of each.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

function objects(count) {
  const table = {};
  for (let i = 0; i < count; i++) table['k' + (i * 7919) % 2003] = (table['k' + i % 2003] || 0) + i;
  let sum = 0;
  for (const key in table) sum = (sum + table[key]) % 1000003;
  return sum;
}

function numbers(count) {
  let sum = 0;
  for (let i = 1; i < count; i++) sum += Math.sin(i) * Math.sqrt(i) + Math.atan2(i, count);
  return Math.round(sum);
}

function strings(count) {
  const parts = [];
  for (let i = 0; i < count; i++) parts.push(`item ${i % 97}`.toUpperCase().replace(/[AEIOU]/g, '-'));
  return parts.sort().join().length;
}

if (isMainThread) {
  const [workers, rounds] = process.argv.slice(2).map(Number);
  const shared = new Int32Array(new SharedArrayBuffer(4));
  let left = workers, checksum = 0;
  for (let n = 0; n < workers; n++) {
    const worker = new Worker(__filename, { workerData: { rounds, n, shared } });
    worker.on('message', (sum) => { checksum = (checksum + sum) % 1000003; });
    worker.on('exit', () => { if (--left === 0) console.log('node_workers', checksum, shared[0]); });
  }
} else {
  for (let round = 0; round < workerData.rounds; round++) {
    Atomics.add(workerData.shared, 0, 1);
    parentPort.postMessage((objects(20000 + round) + numbers(20000) + strings(4000)) % 1000003);
  }
}
