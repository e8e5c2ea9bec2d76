// client.mjs MODULES NSRUN PROJECT drives `nsrun mcp` with the TypeScript SDK's client, as
// an agent's program does. MODULES is where npm put it.
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, nsrun, project] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const load = async (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load('client/index.js');
const { StdioClientTransport } = await load('client/stdio.js');
const { ElicitRequestSchema } = await load('types.js');

// connect starts a server. answer is what the user says, undefined: the client cannot ask.
async function connect(answer) {
  const asked = [];
  const client = new Client({ name: 'test', version: '1' }, { capabilities: answer ? { elicitation: {} } : {} });
  if (answer) {
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
      asked.push(params.message);
      return { action: answer, ...(answer === 'accept' ? { content: {} } : {}) };
    });
  }
  const transport = new StdioClientTransport({
    command: nsrun, args: ['mcp', '--project', project], stderr: 'inherit',
    env: { HOME: process.env.HOME, PATH: process.env.PATH },
  });
  await client.connect(transport);
  const call = (args, options) => client.callTool({ name: 'run_command', arguments: args }, undefined, options);
  return { client, asked, call, pid: transport.pid };
}

const text = (result) => result.content.map((c) => c.text).join('');
const ends = async (what, cond) => {
  const limit = Date.now() + 20000;
  while (!cond()) {
    assert(Date.now() < limit, `waited in vain: ${what}`);
    await new Promise((r) => setTimeout(r, 5));
  }
};
const running = (word) =>
  readdirSync('/proc').some((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(word);
    } catch {
      return false;
    }
  });

const greeter = createServer((socket) => socket.end('hello\n')).listen(0, '127.0.0.1');
await new Promise((r) => greeter.once('listening', r));
const curl = { command: `bash -c 'cat </dev/tcp/127.0.0.1/${greeter.address().port}'` };

let c = await connect();
const { tools } = await c.client.listTools();
assert.equal(tools.length, 1);
assert.equal(tools[0].name, 'run_command');
assert.deepEqual(tools[0].inputSchema.required, ['command']);
assert.match(c.client.getInstructions(), /no network/);

// The client checks what is structured against the schema.
let result = await c.call({ command: 'echo out; echo err >&2; echo new >f; exit 3' });
assert.equal(text(result), 'out\nerr\nexit code: 3\n');
assert.equal(result.structuredContent.exit_code, 3);
assert.deepEqual(result.structuredContent.changes.map((x) => [x.kind, x.path]), [['added', 'f']]);
assert.equal(readFileSync(`${project}/f`, 'utf8'), 'new\n');
assert.equal(text(await c.call({ command: 'pwd', working_dir: 'playground' })), `${process.env.HOME}/playground\n`);
result = await c.call({ command: 'pwd', working_dir: '/x' });
assert(result.isError);
assert.equal(text(result), 'ERROR: Working directory does not exist: /x');

// No capability, no network.
result = await c.call({ ...curl, network: true });
assert(result.isError);
assert.match(text(result), /^ERROR: Network access was denied: .*cannot ask/);
assert.match(text(await c.call(curl)), /exit code: 1/);

// Progress, and a call that is given up.
const word = '3000.5';
const abort = new AbortController();
const told = [];
await assert.rejects(
  c.call({ command: `echo begun; sleep ${word}` }, {
    signal: abort.signal,
    onprogress: ({ message }) => { told.push(message); abort.abort(); },
  }));
assert.deepEqual(told, ['begun\n']);
await ends('nothing of the command runs', () => !running(word));
const many = await Promise.all([1, 2, 3, 4].map((n) => c.call({ command: `echo ${n}` })));
assert.deepEqual(many.map(text), ['1\n', '2\n', '3\n', '4\n']);

// With the client the server ends, and the command.
const left = c.call({ command: `touch ~/playground/left; sleep ${word}` });
left.catch(() => {});
await ends('the command runs', () => running(word));
await c.client.close();
await ends('nothing of the command runs', () => !running(word));
await ends('the server has ended', () => !existsSync(`/proc/${c.pid}`));

for (const [answer, want] of [['accept', 'hello\n'], ['decline', /was denied: the command was not run$/], ['cancel', /was denied/]]) {
  c = await connect(answer);
  for (const n of [1, 2]) {
    result = await c.call({ ...curl, network: true });
    if (typeof want === 'string') assert.equal(text(result), want);
    else assert.match(text(result), want);
    assert.equal(Boolean(result.isError), answer !== 'accept');
    assert.equal(c.asked.length, n);
    assert(c.asked[0].startsWith(`Run command with network access: ${curl.command}?`));
  }
  await c.client.close();
}
greeter.close();
