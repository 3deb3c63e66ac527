// Code that a just-in-time compiler turns into machine code while it runs: closures, maps,
// strings, typed arrays, JSON and garbage. Argument: number of rounds.
'use strict';

function typedArrays(size) {
  const values = new Float64Array(size);
  for (let i = 0; i < size; i++) values[i] = Math.sqrt(i) * (i % 7);
  let sum = 0;
  for (let pass = 0; pass < 20; pass++) {
    for (let i = 1; i < size; i++) values[i] = (values[i] + values[i - 1]) / 2;
    sum += values[size - 1];
  }
  return sum;
}

function trees(depth) {
  const build = (level) => level === 0 ? null : { left: build(level - 1), right: build(level - 1), level };
  const count = (node) => node === null ? 0 : node.level + count(node.left) + count(node.right);
  return count(build(depth));
}

function maps(count) {
  const map = new Map();
  for (let i = 0; i < count; i++) {
    const key = 'key' + (i * 7919) % 5003;
    map.set(key, (map.get(key) || 0) + i);
  }
  return [...map.entries()].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 3).join();
}

function documents(count) {
  const rows = Array.from({ length: count }, (_, i) => ({ id: i, name: `row ${i}`, tags: [i % 3, i % 5] }));
  return JSON.parse(JSON.stringify(rows)).filter((row) => /[13]5$/.test(row.name)).length;
}

const rounds = Number(process.argv[2] || 1);
let checksum = 0;
for (let round = 0; round < rounds; round++) {
  const line = [typedArrays(20000 + round % 5), trees(14), maps(30000 + round % 7), documents(3000)].join('|');
  for (let i = 0; i < line.length; i++) checksum = (checksum * 31 + line.charCodeAt(i)) >>> 0;
}
console.log('node_mix', rounds, checksum);
